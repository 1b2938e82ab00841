package policy

import (
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/schemas"
)

func checkClass(p schemas.Policy, name string, c schemas.Class) error {
	at := place{"classes", name}
	if len(c.Made) < 2 || c.Made[0] != "acquire" {
		return at.in("made").fault("got %v, want a path of stage types that starts with acquire", c.Made)
	}
	if len(c.Checked) == 0 || len(c.Gates) == 0 || len(c.Coverage) == 0 || len(c.TensorTypes) == 0 {
		return at.fault("checked, gates, coverage and tensorTypes must each name something; nothing to check would mean nothing was checked")
	}
	if err := checkStages(at, c); err != nil {
		return err
	}
	brought := map[string]bool{}
	for i, rule := range c.Checked {
		at := at.in("checked", i)
		if rule.Of != "artifact" && rule.Of != "source" {
			return at.in("of").fault("got %q, want artifact or source", rule.Of)
		}
		if len(rule.Kernels) == 0 {
			return at.in("kernels").fault("empty; name the kernels whose reports %s must bring", rule.Uses)
		}
		for j, k := range rule.Kernels {
			if schemas.KernelMetrics(k) == nil {
				return at.in("kernels", j).fault("unknown kernel %q; known are %s", k, strings.Join(schemas.KernelNames(), ", "))
			}
			brought[k] = true
		}
	}
	for _, need := range [][2]string{{"evaluate", "coverage"}, {"derive", "tensorTypes"}} {
		if !bringsOf(c, need[0]) {
			return at.in(need[1]).fault("no required check of the artifact brings a report of kernel %q, so it could never hold", need[0])
		}
	}
	for _, uses := range signedTypes(c) {
		if _, ok := p.Signers[uses]; !ok {
			return at.fault("signers.%s is missing: nobody is named who may sign stage type %s", uses, uses)
		}
	}
	if err := checkGates(at, c, brought); err != nil {
		return err
	}
	for i, cov := range c.Coverage {
		if cov.AtLeast < 1 {
			return at.in("coverage", i, "atLeast").fault("got %d, want 1 or more", cov.AtLeast)
		}
	}
	return nil
}

// checkStages refuses stage and tensor types that there are none of.
func checkStages(at place, c schemas.Class) error {
	for _, list := range []struct {
		field string
		names []string
	}{{"made", c.Made}, {"side", c.Side}} {
		for i, uses := range list.names {
			if err := checkStage(at.in(list.field, i), uses); err != nil {
				return err
			}
		}
	}
	for i, typ := range c.TensorTypes {
		if !slices.Contains(schemas.TensorTypes(), typ) {
			return at.in("tensorTypes", i).fault("unknown tensor type %q; known are %s", typ, strings.Join(schemas.TensorTypes(), ", "))
		}
	}
	for i, rule := range c.Checked {
		if err := checkStage(at.in("checked", i, "uses"), rule.Uses); err != nil {
			return err
		}
		if rule.Against != "" && rule.Against != "source" {
			if err := checkStage(at.in("checked", i, "against"), rule.Against); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkGates(at place, c schemas.Class, brought map[string]bool) error {
	names := map[string]bool{}
	for i, g := range c.Gates {
		at := at.in("gates", i)
		metrics := schemas.KernelMetrics(g.Kernel)
		unit, known := metricUnit(metrics, g.Metric)
		switch {
		case g.Name == "" || names[g.Name]:
			return at.in("name").fault("%q is empty or used twice", g.Name)
		case !slices.Contains([]string{"<=", ">=", "=="}, g.Compare):
			return at.in("compare").fault("got %q, want <=, >= or ==", g.Compare)
		case metrics == nil:
			return at.in("kernel").fault("unknown kernel %q; known are %s", g.Kernel, strings.Join(schemas.KernelNames(), ", "))
		case !brought[g.Kernel]:
			return at.in("kernel").fault("no required check brings a report of kernel %q, so the gate could never hold", g.Kernel)
		case !known:
			return at.in("metric").fault("unknown metric %q; kernel %s measures %s", g.Metric, g.Kernel, strings.Join(sortedKeys(metrics), ", "))
		case g.Unit != unit:
			return at.in("unit").fault("got %q, want %q: the unit of %s", g.Unit, unit, g.Metric)
		}
		for _, name := range sortedKeys(g.Identity) {
			if !slices.Contains(schemas.MetricIdentities(), name) {
				return at.in("identity", name).fault("unknown; metrics are told apart by %s", strings.Join(schemas.MetricIdentities(), ", "))
			}
		}
		names[g.Name] = true
	}
	return nil
}

// metricUnit finds a metric by its name, or by the start of a name that ends in a slash.
func metricUnit(metrics map[string]string, name string) (string, bool) {
	if unit, ok := metrics[name]; ok {
		return unit, true
	}
	if start, rest, ok := strings.Cut(name, "/"); ok && rest != "" {
		unit, ok := metrics[start+"/"]
		return unit, ok
	}
	return "", false
}

// bringsOf tells whether a class requires a kernel's report over the artifact.
func bringsOf(c schemas.Class, kernel string) bool {
	return slices.ContainsFunc(c.Checked, func(r schemas.CheckRule) bool {
		return r.Of == "artifact" && slices.Contains(r.Kernels, kernel)
	})
}
