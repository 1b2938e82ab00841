package kernels

import (
	"context"
	"fmt"
	"sort"
)

// Kernel describes one registered kernel.
type Kernel struct {
	Name    string
	Version string // semantic version; changes when a result for the same input could change
	Spec    string // link to the specification or reference
	Summary string // one line
	// Limits are the borders of what the kernel does, each shown by a probe.
	Limits []Limit
	// Gates are conditions on metrics that every passed report keeps, beside having no finding and no missed control.
	Gates []Gate
	// Faults names every kind of fault that the kernel claims to find; each has at least one planted control.
	Faults []string
	// SelfCheck runs the kernel on a small built-in input with every control planted.
	SelfCheck func(ctx context.Context) (Report, error)
}

// NewReport starts a report of this kernel.
func (k Kernel) NewReport() Report {
	return Report{
		Schema: ReportSchema, Kernel: k.Name, Version: k.Version, Spec: k.Spec,
		Inputs: []Input{}, Metrics: []Metric{}, Findings: []Finding{}, Controls: Controls{Results: []ControlResult{}},
	}
}

// CheckFaults tells which claimed kinds of fault a run planted no control for.
func (k Kernel) CheckFaults(c Controls) error {
	planted := map[string]bool{}
	for _, r := range c.Results {
		planted[r.Fault] = true
	}
	for _, f := range k.Faults {
		if !planted[f] {
			return fmt.Errorf("kernel %s: it claims to find %q but planted no control of that kind", k.Name, f)
		}
	}
	return nil
}

// Registry holds kernels by name.
type Registry struct{ byName map[string]Kernel }

// NewRegistry refuses two kernels of one name, and one without version, specification, gates, limits, faults or self-check.
func NewRegistry(all ...Kernel) (*Registry, error) {
	r := &Registry{byName: map[string]Kernel{}}
	for _, k := range all {
		switch {
		case k.Name == "" || k.Version == "" || k.Spec == "":
			return nil, fmt.Errorf("kernel %q: name, version and specification are required", k.Name)
		case len(k.Gates) == 0 || len(k.Limits) == 0:
			return nil, fmt.Errorf("kernel %s: a verification kernel states its gates and its limits", k.Name)
		case len(k.Faults) == 0 || k.SelfCheck == nil:
			return nil, fmt.Errorf("kernel %s: a verification kernel names the faults it finds and can check itself", k.Name)
		}
		if _, dup := r.byName[k.Name]; dup {
			return nil, fmt.Errorf("kernel %s: registered twice", k.Name)
		}
		r.byName[k.Name] = k
	}
	return r, nil
}

// List returns the kernels sorted by name.
func (r *Registry) List() []Kernel {
	list := make([]Kernel, 0, len(r.byName))
	for _, k := range r.byName {
		list = append(list, k)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list
}
