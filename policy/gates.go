package policy

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/weighmaster/weighmaster/schemas"
)

// ruleGates compares each gate with every metric of its name: all reports
// count. Where the class wants the kernel's report over the artifact, a number
// that was measured on other bytes does not stand for it.
func ruleGates(in *inquiry) []Reason {
	var reasons []Reason
	for _, g := range in.class.Gates {
		list, faults := in.reportsOf(g.Kernel)
		reasons = append(reasons, faults...)
		count := 0
		ofArtifact := bringsOf(in.class, g.Kernel)
		for _, f := range list {
			for _, m := range f.report.Metrics {
				if m.Name == g.Metric && identityFits(g.Identity, m.Identity) {
					if !ofArtifact || f.run.takes(in.q.Artifact) {
						count++
					}
					reasons = append(reasons, judgeGate(g, m, f.run))
				}
			}
		}
		if count == 0 {
			reasons = append(reasons, undecided("gate "+g.Name, fmt.Sprintf("no metric %s of kernel %s with identity %v", g.Metric, g.Kernel, g.Identity), bound(g)))
		}
	}
	return reasons
}

func judgeGate(g schemas.Gate, m schemas.Metric, run *Run) Reason {
	what := fmt.Sprintf("gate %s (%s %s)", g.Name, g.Kernel, g.Metric)
	got := number(m.Value) + " " + m.Unit
	if m.Unit != g.Unit {
		return failed(what, got, "a value in "+g.Unit, run.PAE())
	}
	var holds bool
	switch g.Compare {
	case "<=":
		holds = m.Value <= g.Value
	case ">=":
		holds = m.Value >= g.Value
	case "==":
		holds = m.Value == g.Value
	}
	if !holds || math.IsNaN(m.Value) || math.IsInf(m.Value, 0) {
		return failed(what, got, bound(g), run.PAE())
	}
	return passed(what, got, bound(g), run.PAE())
}

func bound(g schemas.Gate) string { return g.Compare + " " + number(g.Value) + " " + g.Unit }

func number(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

func identityFits(want, got map[string]string) bool {
	for k, v := range want {
		if got[k] != v {
			return false
		}
	}
	return true
}

// ruleCoverage wants the fixtures of each kind to have been run, on the
// artifact itself, and all of them to have passed.
func ruleCoverage(in *inquiry) []Reason {
	var reasons []Reason
	list, faults := in.reportsOf("evaluate")
	reasons = append(reasons, faults...)
	for _, cov := range in.class.Coverage {
		what := "fixtures " + coverageName(cov)
		count := 0
		for _, f := range list {
			if !f.run.takes(in.q.Artifact) {
				continue
			}
			total, haveTotal := fixtures(f.report, "fixtures_total", cov)
			ok, havePassed := fixtures(f.report, "fixtures_passed", cov)
			if !haveTotal && !havePassed {
				continue
			}
			if haveTotal != havePassed { // run, but not counted: a better report does not hide it
				count++
				reasons = append(reasons, undecided(what, "only one of fixtures_total and fixtures_passed", "both"))
				continue
			}
			count++
			got, want := fmt.Sprintf("%s of %s passed", number(ok), number(total)), fmt.Sprintf("all of at least %d", cov.AtLeast)
			if total < float64(cov.AtLeast) || ok != total {
				reasons = append(reasons, failed(what, got, want, f.run.PAE()))
			} else {
				reasons = append(reasons, passed(what, got, want, f.run.PAE()))
			}
		}
		if count == 0 {
			reasons = append(reasons, undecided(what, "not measured", fmt.Sprintf("all of at least %d passed", cov.AtLeast)))
		}
	}
	return reasons
}

func coverageName(c schemas.Coverage) string {
	name := c.Kind
	if c.Language != "" {
		name += "/" + c.Language
	}
	if c.Tokens != 0 {
		name += fmt.Sprintf(" at %d tokens", c.Tokens)
	}
	return name
}

// fixtures sums a fixture count over the metrics that the coverage names.
func fixtures(rep schemas.Report, metric string, cov schemas.Coverage) (float64, bool) {
	sum, any := 0.0, false
	for _, m := range rep.Metrics {
		if m.Name != metric || m.Unit != "fixtures" || m.Identity["kind"] != cov.Kind ||
			(cov.Language != "" && m.Identity["language"] != cov.Language) ||
			(cov.Tokens != 0 && m.Identity["tokens"] != strconv.Itoa(cov.Tokens)) {
			continue
		}
		sum += m.Value
		any = true
	}
	return sum, any
}

// ruleTensorTypes holds the tensor types that the derive kernel counted against those that the class allows.
func ruleTensorTypes(in *inquiry) []Reason {
	list, reasons := in.reportsOf("derive")
	want := "only " + strings.Join(in.class.TensorTypes, ", ")
	for _, f := range list {
		var all, bad []string
		for _, m := range f.report.Metrics {
			typ, ok := strings.CutPrefix(m.Name, "tensors/")
			if !ok || m.Value == 0 {
				continue
			}
			item := number(m.Value) + " " + typ
			all = append(all, item)
			if !slices.Contains(in.class.TensorTypes, typ) {
				bad = append(bad, item)
			}
		}
		sort.Strings(all)
		switch {
		case len(bad) > 0:
			reasons = append(reasons, failed("tensor types", strings.Join(all, ", "), want, f.run.PAE()))
		case len(all) == 0:
			reasons = append(reasons, undecided("tensor types", "not counted", want))
		default:
			reasons = append(reasons, passed("tensor types", strings.Join(all, ", "), want, f.run.PAE()))
		}
	}
	return reasons
}
