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
		domains := map[string]bool{}
		ofArtifact := bringsOf(in.class, g.Kernel)
		for _, f := range list {
			for _, m := range f.report.Metrics {
				if m.Name == g.Metric && identityFits(g.Identity, m.Identity) {
					if !ofArtifact || f.run.takes(in.q.Artifact) {
						count++
					}
					domains[m.Identity["domain"]] = true
					reasons = append(reasons, judgeGate(g, m, f.run))
				}
			}
		}
		if names := sortedKeys(domains); len(names) > 1 {
			reasons = append(reasons, undecided("gate "+g.Name, fmt.Sprintf("measured over the domains %s, which cannot be compared", strings.Join(names, " and ")), "one; name it in the gate's identity"))
		}
		if count == 0 {
			reasons = append(reasons, undecided("gate "+g.Name, fmt.Sprintf("no metric %s of kernel %s with identity %v", g.Metric, g.Kernel, g.Identity), bound(g)))
		}
	}
	return reasons
}

// judgeGate holds one metric against a gate. A metric of identity bound: lower
// or upper is only known to lie on one side of its value (the divergence over the
// top ids and one bucket for the rest is at most the whole one): it can fail a gate
// on that side, and passes none but on that side.
func judgeGate(g schemas.Gate, m schemas.Metric, run *Run) Reason {
	what := fmt.Sprintf("gate %s (%s %s)", g.Name, g.Kernel, g.Metric)
	got := number(m.Value) + " " + m.Unit
	if m.Unit != g.Unit {
		return failed(what, got, "a value in "+g.Unit, run.PAE())
	}
	if math.IsNaN(m.Value) || math.IsInf(m.Value, 0) {
		return failed(what, got, bound(g), run.PAE())
	}
	below, above := m.Value < g.Value, m.Value > g.Value // what the true value is known to be
	exact := true
	switch m.Identity["bound"] {
	case "":
	case "lower": // it is at least this much: it can be too large, and never small enough
		below, exact, got = false, false, "at least "+got
		above = above || (g.Compare == ">=" && m.Value == g.Value)
	case "upper":
		above, exact, got = false, false, "at most "+got
		below = below || (g.Compare == "<=" && m.Value == g.Value)
	default:
		return Reason{What: what, Verdict: schemas.Undecided, Got: fmt.Sprintf("%s, a bound of the kind %q", got, m.Identity["bound"]), Want: bound(g), Claim: run.PAE()}
	}
	equal := exact && !below && !above
	switch {
	case g.Compare == "<=" && (below || equal), g.Compare == ">=" && (above || equal), g.Compare == "==" && equal:
		return passed(what, got, bound(g), run.PAE())
	case below || above || exact:
		return failed(what, got, bound(g), run.PAE())
	}
	return Reason{What: what, Verdict: schemas.Undecided, Got: got + ", which tells nothing of the rest", Want: bound(g), Claim: run.PAE()}
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
				reasons = append(reasons, undecided(what, "only one of fixtures_total and fixtures_passed", "both").from(f.run.PAE()))
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
			reasons = append(reasons, undecided("tensor types", "not counted", want).from(f.run.PAE()))
		default:
			reasons = append(reasons, passed("tensor types", strings.Join(all, ", "), want, f.run.PAE()))
		}
	}
	return reasons
}
