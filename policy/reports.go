package policy

import (
	"fmt"
	"slices"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/schemas"
)

// found is one report with the run that brought it.
type found struct {
	run    *Run
	report schemas.Report
}

// reportsOf gathers every report of a kernel from the required examinations.
// Reports that cannot be read are a reason of their own.
func (in *inquiry) reportsOf(kernel string) ([]found, []Reason) {
	var list []found
	var faults []Reason
	seen := map[*Run]bool{}
	for _, c := range in.checks {
		for _, run := range c.runs {
			if seen[run] {
				continue
			}
			seen[run] = true
			reports, err := run.Reports(in.ev.Objects)
			if err != nil {
				faults = append(faults, Reason{What: run.name(), Verdict: schemas.Undecided, Got: err.Error(), Want: "its kernel reports", Claim: run.PAE()})
			}
			for _, rep := range reports {
				if rep.Kernel == kernel {
					list = append(list, found{run, rep})
				}
			}
		}
	}
	return list, faults
}

// ruleChecks wants every required examination with a passed report of each
// kernel that it must bring, over exactly these bytes.
func ruleChecks(in *inquiry) []Reason {
	var reasons []Reason
	source, _ := in.source()
	for _, c := range in.checks {
		what := fmt.Sprintf("%s of the %s", c.rule.Uses, c.rule.Of)
		if c.rule.Against != "" {
			what += " against " + c.rule.Against
		}
		if len(c.runs) == 0 {
			reasons = append(reasons, undecided(what, "no claim", "a claim with reports of "+strings.Join(c.rule.Kernels, ", ")))
			continue
		}
		subject := in.q.Artifact
		if c.rule.Of == "source" {
			subject = source
		}
		for _, kernel := range c.rule.Kernels {
			reasons = append(reasons, in.checkKernel(what, kernel, c.runs, subject)...)
		}
	}
	return reasons
}

func (in *inquiry) checkKernel(what, kernel string, runs []*Run, subject godigest.Digest) []Reason {
	var reasons []Reason
	count := 0
	for _, run := range runs {
		reports, err := run.Reports(in.ev.Objects)
		if err != nil {
			reasons = append(reasons, Reason{What: what, Verdict: schemas.Undecided, Got: err.Error(), Want: "report of kernel " + kernel, Claim: run.PAE()})
		}
		for _, rep := range reports {
			if rep.Kernel != kernel {
				continue
			}
			count++
			reasons = append(reasons, judgeReport(what, run, rep, subject))
			reasons = append(reasons, in.judgeLeft(what, run, rep)...)
		}
	}
	if count == 0 {
		reasons = append(reasons, undecided(what, "no report of kernel "+kernel, "one that passed").from(runs[len(runs)-1].PAE()))
	}
	return reasons
}

func judgeReport(what string, run *Run, rep schemas.Report, subject godigest.Digest) Reason {
	what = fmt.Sprintf("%s: kernel %s %s", what, rep.Kernel, rep.Version)
	if !slices.ContainsFunc(rep.Inputs, func(i schemas.Input) bool { return i.Digest == subject }) {
		return failed(what, "a report over other bytes", "a report over "+subject.String(), run.PAE())
	}
	return judgeVerdict(what, run, rep)
}

func judgeVerdict(what string, run *Run, rep schemas.Report) Reason {
	switch {
	case rep.Verdict == schemas.Passed && len(rep.Findings) == 0:
		return passed(what, "passed", "passed", run.PAE())
	case rep.Verdict == schemas.Undecided:
		return Reason{What: what, Verdict: schemas.Undecided, Got: "undecided" + firstFinding(rep), Want: "passed", Claim: run.PAE()}
	}
	return failed(what, string(rep.Verdict)+firstFinding(rep), "passed", run.PAE())
}

func firstFinding(rep schemas.Report) string {
	if len(rep.Findings) == 0 {
		return ""
	}
	f := rep.Findings[0]
	return fmt.Sprintf(": %s: %s: got %s, want %s", f.Check, f.Where, f.Got, f.Want)
}

// ruleControls wants every report to have planted controls and missed none.
func ruleControls(in *inquiry) []Reason {
	var reasons []Reason
	for _, run := range in.usedRuns() {
		reports, err := run.Reports(in.ev.Objects)
		if err != nil {
			reasons = append(reasons, Reason{What: run.name(), Verdict: schemas.Undecided, Got: err.Error(), Want: "its kernel reports", Claim: run.PAE()})
		}
		for _, rep := range reports {
			reasons = append(reasons, judgeControls(run, rep))
		}
	}
	return reasons
}

func judgeControls(run *Run, rep schemas.Report) Reason {
	what := fmt.Sprintf("%s: kernel %s", run.name(), rep.Kernel)
	c := rep.Controls
	red := 0
	for _, r := range c.Results {
		if r.Red {
			red++
		}
	}
	got := fmt.Sprintf("%d planted, %d red, %d missed", c.Planted, c.Red, c.Missed)
	const want = "at least one planted, all red"
	if c.Planted != len(c.Results) || c.Red != red || c.Missed != c.Planted-red {
		return failed(what, got+fmt.Sprintf(", but %d results with %d red", len(c.Results), red), "counts that add up", run.PAE())
	}
	if c.Missed > 0 {
		return failed(what, got, want, run.PAE())
	}
	if c.Planted == 0 {
		return Reason{What: what, Verdict: schemas.Undecided, Got: got, Want: want, Claim: run.PAE()}
	}
	return passed(what, got, want, run.PAE())
}
