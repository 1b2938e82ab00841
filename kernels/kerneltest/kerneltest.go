// Package kerneltest holds what every kernel's tests ask of it.
package kerneltest

import (
	"testing"

	"github.com/weighmaster/weighmaster/kernels"
)

// Passes asks that a report of good input passed its gates, and that every
// kind of fault that k claims to find was planted in it and found.
func Passes(t *testing.T, name string, k kernels.Kernel, r kernels.Report) {
	t.Helper()
	for _, c := range r.Controls.Results {
		if !c.Red {
			t.Errorf("%s: control %q came out green: %s", name, c.Name, c.Detail)
		}
	}
	if r.Verdict != kernels.Passed || r.Controls.Planted != len(k.Faults) {
		t.Errorf("%s: got %s, %d planted, %v; want passed and %d", name, r.Verdict, r.Controls.Planted, r.Findings, len(k.Faults))
	}
	if err := k.CheckFaults(r.Controls); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if err := k.CheckGates(r); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// Sound asks that a kernel's self-check passes and that its limits are as stated.
func Sound(t *testing.T, k kernels.Kernel) {
	t.Helper()
	if c := k.Check(t.Context()); c.Verdict != kernels.Passed || len(c.LimitProblems) > 0 {
		t.Errorf("got %s %s %v, want passed without limit problems", c.Verdict, c.Failure, c.LimitProblems)
	}
}
