package kernels

import "fmt"

// Gate is a condition that every metric of that name keeps in every report that passed.
// At least one such metric is in the report.
type Gate struct {
	Metric  string     `json:"metric"`
	Unit    string     `json:"unit"`
	Compare Comparison `json:"compare"`
	Value   float64    `json:"value"`
}

// Comparison is how a gate compares a metric with its value.
type Comparison string

const (
	Equal   Comparison = "=="
	AtMost  Comparison = "<="
	AtLeast Comparison = ">="
)

func (g Gate) String() string {
	return fmt.Sprintf("%s %s %v %s", g.Metric, g.Compare, g.Value, g.Unit)
}

func (g Gate) holds(v float64) bool {
	switch g.Compare {
	case Equal:
		return v == g.Value
	case AtMost:
		return v <= g.Value
	case AtLeast:
		return v >= g.Value
	}
	return false
}

// CheckGates tells which gate of the kernel a passed report does not keep: the
// metric is missing, has another unit, or lies beyond the gate.
func (k Kernel) CheckGates(r Report) error {
	if r.Verdict != Passed {
		return nil
	}
	for _, g := range k.Gates {
		found := false
		for _, m := range r.Metrics {
			switch {
			case m.Name != g.Metric:
				continue
			case m.Unit != g.Unit:
				return fmt.Errorf("kernel %s: gate %s: got the metric in %s", k.Name, g, m.Unit)
			case !g.holds(m.Value):
				return fmt.Errorf("kernel %s: gate %s: the report passed with %v", k.Name, g, m.Value)
			}
			found = true
		}
		if !found {
			return fmt.Errorf("kernel %s: gate %s: the report passed without that metric", k.Name, g)
		}
	}
	return nil
}
