package kernels

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

func sample() Kernel {
	return Kernel{Name: "sample", Version: "1.0.0", Spec: "https://example.org/spec", Faults: []string{"flip"},
		Gates: []Gate{{"bytes", "bytes", AtLeast, 1}}, Limits: []Limit{{What: "none", Probe: func(context.Context) error { return nil }}},
		SelfCheck: func(context.Context) (Report, error) { return Report{}, nil }}
}

func TestVerdictFollowsFindingsAndControls(t *testing.T) {
	red, missed := ControlResult{Name: "a", Fault: "flip", Red: true}, ControlResult{Name: "b", Fault: "flip"}
	for _, c := range []struct {
		name     string
		findings int
		controls []ControlResult
		want     Verdict
	}{
		{"nothing wrong, a control red", 0, []ControlResult{red}, Passed},
		{"a finding", 1, []ControlResult{red}, Failed},
		{"no control planted", 0, nil, Undecided},
		{"a missed control", 0, []ControlResult{red, missed}, Undecided},
		{"a finding beside a missed control", 1, []ControlResult{missed}, Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := sample().NewReport()
			for range c.findings {
				r.Find(Finding{Check: "x"})
			}
			for _, result := range c.controls {
				r.Controls.Add(result)
			}
			if err := r.Finish(); err != nil || r.Verdict != c.want {
				t.Fatalf("got %q, %v, want %q", r.Verdict, err, c.want)
			}
			if r.Controls.Planted != r.Controls.Red+r.Controls.Missed {
				t.Fatalf("controls do not add up: %+v", r.Controls)
			}
		})
	}
}

func TestNonFiniteMetricIsRefused(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		r := sample().NewReport()
		r.Controls.Add(ControlResult{Red: true})
		r.Metric("kl_mean", "nats", v)
		if err := r.Finish(); err == nil || !strings.Contains(err.Error(), "kl_mean") {
			t.Errorf("%v: got %v, want the metric named", v, err)
		}
	}
}

func TestFindingsBeyondTheBoundAreCounted(t *testing.T) {
	r := sample().NewReport()
	for range MaxFindings + 7 {
		r.Find(Finding{Check: "x"})
	}
	if len(r.Findings) != MaxFindings || r.FindingsOmitted != 7 {
		t.Fatalf("got %d findings and %d omitted", len(r.Findings), r.FindingsOmitted)
	}
}

func TestClaimedFaultWithoutAControlIsNamed(t *testing.T) {
	k := sample()
	k.Faults = append(k.Faults, "swap")
	err := k.CheckFaults(Controls{Results: []ControlResult{{Fault: "flip", Red: true}}})
	if err == nil || !strings.Contains(err.Error(), `"swap"`) {
		t.Fatalf("got %v, want the fault that was not planted", err)
	}
	if err := k.CheckFaults(Controls{Results: []ControlResult{{Fault: "flip"}, {Fault: "swap"}}}); err != nil {
		t.Fatal(err)
	}
}

func TestRegistryRefusesHollowAndDoubleKernels(t *testing.T) {
	if _, err := NewRegistry(sample()); err != nil {
		t.Fatal(err)
	}
	noSpec, noFaults, noCheck, noGates, noLimits := sample(), sample(), sample(), sample(), sample()
	noSpec.Spec, noFaults.Faults, noCheck.SelfCheck, noGates.Gates, noLimits.Limits = "", nil, nil, nil, nil
	for name, list := range map[string][]Kernel{"twice": {sample(), sample()}, "required": {noSpec}, "names the faults": {noFaults}, "check itself": {noCheck},
		"states its gates": {noGates}, "and its limits": {noLimits}} {
		if _, err := NewRegistry(list...); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %q", err, name)
		}
	}
}

func TestOverlayPatchesEveryReadAndNothingElse(t *testing.T) {
	plain := []byte("0123456789")
	o := Overlay{R: bytes.NewReader(plain), Patches: []Patch{{2, []byte("ab")}, {9, []byte("z-beyond")}}}
	for off := range plain {
		for size := 1; size <= len(plain); size++ {
			p := make([]byte, size)
			n, err := o.ReadAt(p, int64(off))
			want := "01ab45678z"[off:min(off+size, 10)]
			if string(p[:n]) != want || (err != nil && !errors.Is(err, io.EOF)) {
				t.Fatalf("%d bytes at %d: got %q, %v, want %q", size, off, p[:n], err, want)
			}
		}
	}
	if string(plain) != "0123456789" {
		t.Fatal("the input itself was written")
	}
}
