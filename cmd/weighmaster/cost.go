package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weighmaster/weighmaster/kernels/cost"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

func (a *app) costCommand() *cobra.Command {
	return &cobra.Command{
		Use: "cost FILE", Short: "Work out a cost sheet: a planning estimate, apart from every decision",
		Args: cobra.ExactArgs(1),
		Long: "Cost adds up a sheet (YAML or JSON, schema cost/v1): allocated hours, disks over the whole window, bytes that left, each at a rate with its source and day.\n" +
			"A compute line with machine: sha256:… takes its intervals from the project's releases of that machine. Lines without a rate are named, and the exit code is 2.\n" +
			"It is no invoice, and nothing of it is part of an acceptance: no policy can read it.",
		Example: "  weighmaster cost cost.yaml\n  weighmaster cost cost.yaml --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			sheet, err := readSheet(args[0])
			if err != nil {
				return err
			}
			if err := a.fillIntervals(cmd.Context(), &sheet); err != nil {
				return err
			}
			e, err := cost.Work(sheet)
			if err != nil {
				return usage("%s: %v", args[0], err)
			}
			if err := a.answer(e, func() { a.printEstimate(e) }); err != nil {
				return err
			}
			if len(e.Unpriced) > 0 {
				return &exitError{code: exitUndecided}
			}
			return nil
		},
	}
}

func readSheet(path string) (cost.Sheet, error) {
	var sheet cost.Sheet
	f, err := os.Open(path)
	if err != nil {
		return sheet, usage("%v", err)
	}
	defer f.Close()
	body, err := io.ReadAll(io.LimitReader(f, schemas.MaxYAMLBytes+1)) // one more, so that a longer one is refused
	if err == nil {
		err = schemas.DecodeYAML(path, body, schemas.CostURI, &sheet)
	}
	if err != nil {
		return sheet, usage("%v", err)
	}
	return sheet, nil
}

// fillIntervals takes the intervals of machines that the sheet names by digest
// from the releases in the project's ledger.
func (a *app) fillIntervals(ctx context.Context, sheet *cost.Sheet) error {
	var p *project
	var claims policy.Evidence
	for i, c := range sheet.Compute {
		if c.Machine == "" {
			continue
		}
		if c.Hours != nil || len(c.Intervals) > 0 {
			return usage("compute[%d]: it names a machine and gives hours or intervals as well; leave one out", i)
		}
		if p == nil {
			var err error
			if p, err = a.open(ctx, false); err != nil {
				return err
			}
			defer p.close()
			list, err := p.allClaims(ctx)
			if err != nil {
				return err
			}
			if claims, err = p.policyEvidence(ctx, list); err != nil {
				return err
			}
		}
		intervals, err := allocatedIntervals(claims, c.Machine)
		if err != nil {
			return err
		}
		sheet.Compute[i].Intervals = intervals
	}
	return nil
}

// allocatedIntervals are those that passed releases of a machine state, each once.
func allocatedIntervals(ev policy.Evidence, machine string) ([]cost.Interval, error) {
	var list []cost.Interval
	seen := map[time.Time]int{}
	runs, _ := policy.Runs(ev.Claims)
	for _, r := range runs {
		res, err := r.Result(ev.Objects)
		if r.Uses != "release" || err != nil || res.Verdict != schemas.Passed || res.Facts["machine"] != machine || res.Facts["allocated"] == "" {
			continue
		}
		from, to, _ := strings.Cut(res.Facts["allocated"], "/")
		var iv cost.Interval
		if iv.From, err = time.Parse(time.RFC3339, from); err == nil {
			iv.To, err = time.Parse(time.RFC3339, to)
		}
		if err != nil {
			return nil, fmt.Errorf("release %s: allocated: got %q, want start/end: %w", r.PAE(), res.Facts["allocated"], err)
		}
		// A machine that was found deallocated already was released once: the
		// earliest end for a start counts.
		if at, again := seen[iv.From]; again {
			if iv.To.Before(list[at].To) {
				list[at] = iv
			}
			continue
		}
		seen[iv.From] = len(list)
		list = append(list, iv)
	}
	return list, nil
}

func (a *app) printEstimate(e *cost.Estimate) {
	a.printf("%s\n%s\n\n", e.Title, e.Notice)
	for _, l := range e.Lines {
		sum := "no price"
		if l.Amount != nil {
			sum = span(cost.Cents(l.Amount.Low), cost.Cents(l.Amount.High)) + " " + e.Currency
		}
		a.printf("%-8s  %-44s %16s %-5s  %s\n", l.Kind, l.What, span(l.Quantity.Low, l.Quantity.High), l.Unit, sum)
		if l.Note != "" {
			a.printf("          %s\n", l.Note)
		}
		if l.PerDay != "" {
			a.printf("          %s %s an hour, %s a day for as long as it is kept\n", l.PerHour, e.Currency, cost.Cents(l.PerDay))
		}
	}
	total := "total"
	if len(e.Unpriced) > 0 {
		total = "total without " + strings.Join(e.Unpriced, ", ")
	}
	a.printf("\n%s: %s %s\n\n", total, span(cost.Cents(e.Low), cost.Cents(e.High)), e.Currency)
	for _, r := range e.Rates {
		a.printf("rate      %s: %s %s per %s, read on %s: %s\n", r.Name, r.Amount, e.Currency, r.Per, r.Date, r.Source)
	}
	for _, s := range e.Assumptions {
		a.printf("assumed   %s\n", s)
	}
	for _, s := range e.Exclusions {
		a.printf("left out  %s\n", s)
	}
}

// span shows two bounds, or one where they are alike.
func span(low, high string) string {
	if low == high {
		return low
	}
	return low + " to " + high
}
