package token

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
)

// The kernel's identity.
const (
	Name    = "token parity"
	Version = "2.0.0"
	Spec    = "https://huggingface.co/docs/tokenizers/pipeline"
)

// MinCorpus is the number of cases that a comparison needs to be decided.
const MinCorpus = 330

// Kernel describes the kernel for the registry.
func Kernel() kernels.Kernel {
	return kernels.Kernel{
		Name: Name, Version: Version, Spec: Spec,
		Summary: "compares two tokenizers on the ids, texts and pieces that they give, six times a case, with no difference allowed",
		Limits:  kernelLimits(),
		Gates: []kernels.Gate{
			{Metric: "mismatches", Unit: "comparisons", Compare: kernels.Equal, Value: 0},
			{Metric: "comparisons_undecided", Unit: "comparisons", Compare: kernels.Equal, Value: 0},
			{Metric: "cases", Unit: "cases", Compare: kernels.AtLeast, Value: MinCorpus},
		},
		Faults:    faultNames(),
		SelfCheck: selfCheck,
	}
}

// Parity compares two tokenizers on every case of a corpus, six times:
//
//  1. the ids, special tokens that are written out read;
//  2. the ids with those that the tokenizer puts around every text (BOS, EOS);
//  3. the ids, special tokens that are written out left as text;
//  4. the ids of the case in the middle of a sentence;
//  5. the text of the first side's ids of 1 and 2, and without special tokens where both sides are in this process;
//  6. the bytes of each of the first side's ids alone.
//
// The report passes when nothing differs, every planted control was found and
// the corpus has at least [MinCorpus] cases; with fewer, or where a side cannot
// answer one of the six, it is undecided. An error is a side's that fails, or ctx's.
func Parity(ctx context.Context, a, b Side, corpus []string) (kernels.Report, error) {
	report := Kernel().NewReport()
	if a == nil || b == nil {
		return report, errors.New("parity: got one tokenizer, want two")
	}
	for _, side := range []Side{a, b} {
		if in, ok := side.Source(); ok {
			report.Inputs = append(report.Inputs, in)
		}
	}
	listed, err := json.Marshal(corpus)
	if err != nil {
		return report, fmt.Errorf("parity: corpus: %w", err)
	}
	report.Inputs = append(report.Inputs, kernels.Input{Name: "corpus", Digest: godigest.FromBytes(listed), Size: int64(len(listed))})
	answers, err := compareAll(ctx, a, b, corpus, &report)
	if err != nil {
		return report, fmt.Errorf("parity: %w", err)
	}
	report.Metrics = append(report.Metrics, warnings(a, b))
	if err := plant(ctx, b, corpus, answers, &report.Controls); err != nil {
		return report, err
	}
	if err := report.Finish(); err != nil {
		return report, err
	}
	if report.Verdict == kernels.Passed && (len(corpus) < MinCorpus || metric(report, "comparisons_undecided") > 0) {
		report.Verdict = kernels.Undecided
	}
	return report, nil
}

// compareAll asks both sides about every case, adds what differs and the metrics, and gives b's answers.
func compareAll(ctx context.Context, a, b Side, corpus []string, report *kernels.Report) ([]answer, error) {
	answers := make([]answer, 0, len(corpus))
	joined := a.Joined() || b.Joined()
	_, here := a.(local)
	_, there := b.(local)
	ids, differing, mismatches, undecided := 0, 0, 0, 0
	for i, c := range corpus {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		want, err := ask(ctx, a, c)
		if err != nil {
			return nil, err
		}
		got, err := ask(ctx, b, c)
		if err != nil {
			return nil, err
		}
		of := want
		if err := errors.Join(want.write(ctx, a, of, joined, here && there), got.write(ctx, b, of, joined, here && there)); err != nil {
			return nil, err
		}
		v := compare(c, want, got, namesOf(a), namesOf(b))
		undecided += v.undecided
		mismatches += v.mismatches
		if v.mismatches > 0 {
			differing++
		}
		for _, f := range v.found {
			f.Where = fmt.Sprintf("case %d, %s", i, f.Where)
			report.Find(f)
		}
		ids += len(want.ids[inText]) + len(want.ids[around])
		answers = append(answers, got)
	}
	report.Metric("cases", "cases", float64(len(corpus)))
	report.Metric("cases_differing", "cases", float64(differing))
	report.Metric("comparisons", "comparisons", float64(len(corpus)*comparisons))
	report.Metric("comparisons_undecided", "comparisons", float64(undecided))
	report.Metric("mismatches", "comparisons", float64(mismatches))
	report.Metric("ids", "ids", float64(ids))
	return answers, nil
}

func metric(r kernels.Report, name string) float64 {
	for _, m := range r.Metrics {
		if m.Name == name {
			return m.Value
		}
	}
	return 0
}

// warnings counts what a user of the vocabulary should know although every text
// has its ids, and names it in the metric's identity.
func warnings(sides ...Side) kernels.Metric {
	m := kernels.Metric{Name: "warnings", Unit: "warnings"}
	for _, side := range sides {
		l, _ := side.(local)
		s, ok := l.e.(interface{ Warnings() []kernels.Finding })
		if !ok {
			continue
		}
		for _, f := range s.Warnings() {
			if m.Identity == nil {
				m.Identity = map[string]string{}
			}
			m.Value++
			m.Identity[f.Check] = f.String()
		}
	}
	return m
}
