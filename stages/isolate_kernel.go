package stages

import (
	"context"
	"fmt"
	"slices"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/isolation"
)

// Kinds of fault that the isolation kernel finds, besides a hole of each attribute.
const (
	faultTimeout   = "time-out taken for a refusal"
	faultNoControl = "refusal of what is not there"
)

// IsolationKernel describes the probe of a box: each attribute shown by the refusal itself.
func IsolationKernel() kernels.Kernel {
	faults := []string{faultTimeout, faultNoControl}
	for _, a := range schemas.BoxAttributes() {
		faults = append(faults, holeOf(a))
	}
	return kernels.Kernel{
		Name: "isolation", Version: "1.0.0", Spec: "https://github.com/in-toto/attestation/blob/main/spec/predicates/scai.md",
		Summary: "what a box denies, each attribute by the errno of the refusal inside and by the same attempt outside, which succeeds",
		Limits:  isolationLimits(),
		Gates:   []kernels.Gate{{Metric: "attributes_missing", Unit: "attributes", Compare: kernels.Equal, Value: 0}, {Metric: "attributes_shown", Unit: "attributes", Compare: kernels.AtLeast, Value: 1}},
		Faults:  faults,
		SelfCheck: func(context.Context) (kernels.Report, error) {
			e := isolation.Sample()
			return isolationReport(e, isolation.ShownBy(e), schemas.BoxAttributes())
		},
	}
}

func holeOf(attribute string) string { return "hole: " + attribute }

// isolationReport holds what was shown against what is required, and plants
// every hole in a copy of what the probe found.
func isolationReport(e isolation.Examination, shown []isolation.Shown, require []string) (kernels.Report, error) {
	r := IsolationKernel().NewReport()
	r.Inputs = []kernels.Input{}
	count, missing := 0, 0
	for _, s := range shown {
		if s.Shown {
			count++
		} else if slices.Contains(require, s.Attribute) {
			missing++
			r.Find(kernels.Finding{Check: s.Attribute, Where: "box of " + string(e.Method), Got: s.Statement, Want: "refused, and shown to be", Hint: "close what is open, or require what this method gives: isolate with.require"})
		}
	}
	for _, a := range require {
		if !slices.ContainsFunc(shown, func(s isolation.Shown) bool { return s.Attribute == a }) {
			missing++
			r.Find(kernels.Finding{Check: a, Where: "box of " + string(e.Method), Got: "not probed", Want: "shown", Hint: "known attributes are in schema/box/v1"})
		}
	}
	r.Metric("attributes_shown", "attributes", float64(count))
	r.Metric("attributes_missing", "attributes", float64(missing))
	r.Metric("tries", "tries", float64(len(e.Tries)))
	controls := 0
	for _, t := range e.Tries {
		if t.Control {
			controls++
		}
	}
	r.Metric("tries_with_control", "tries", float64(controls))
	plantHoles(&r.Controls, e)
	return r, r.Finish()
}

// plantHoles opens one try of each attribute at a time, in a copy, and asks again.
func plantHoles(c *kernels.Controls, e isolation.Examination) {
	for _, a := range schemas.BoxAttributes() {
		for i, t := range e.Tries {
			if t.Attribute == a {
				c.Add(asked(e, i, holeOf(a), t.What+": as it is outside", isolation.Opened(t)))
			}
		}
	}
	for i, t := range e.Tries {
		if t.Attribute != schemas.NetworkIsDenied || !t.Control {
			continue
		}
		late, absent := t, t
		late.Inside = "timeout"
		absent.Before, absent.After = t.Inside, t.Inside
		c.Add(asked(e, i, faultTimeout, t.What+": a time-out inside", late))
		c.Add(asked(e, i, faultNoControl, t.What+": refused outside as well", absent))
	}
}

// asked is the judgement of one attribute with one try replaced: red when it is then not shown.
func asked(e isolation.Examination, i int, fault, name string, t isolation.Try) kernels.ControlResult {
	e.Tries = slices.Clone(e.Tries)
	e.Tries[i] = t
	for _, s := range isolation.ShownBy(e) {
		if s.Attribute == t.Attribute {
			return kernels.ControlResult{Name: name, Fault: fault, Red: !s.Shown, Detail: s.Statement}
		}
	}
	return kernels.ControlResult{Name: name, Fault: fault, Detail: "the attribute was not judged"}
}

// isolationLimits is what the probe does not see, each with the try that passes unseen.
func isolationLimits() []kernels.Limit {
	unseen := func(kind, what string) func(context.Context) error {
		return func(context.Context) error {
			e := isolation.Sample()
			for _, t := range e.Tries {
				if t.Kind == kind {
					return fmt.Errorf("%s is tried: %s", what, t.What)
				}
			}
			return nil
		}
	}
	return []kernels.Limit{
		{What: "a script that was written and is run by an interpreter of the box is not tried: the interpreter is let in", Probe: unseen("script", "a script")},
		{What: "code that a program makes in its own memory is not tried", Probe: unseen("memory", "code in memory")},
		{What: "what a box takes of the processor and of memory is not bounded and not tried", Probe: unseen("limit", "a limit")},
	}
}
