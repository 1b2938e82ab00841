package kernels

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
)

// comparing is a small kernel that compares bytes and plants a flip of the first
// and of the last one. The seen ones are those that its comparison looks at.
func comparing(seen func(n int) int) Kernel {
	k := sample()
	k.SelfCheck = func(context.Context) (Report, error) {
		r := k.NewReport()
		want := []byte("weights")
		r.Metric("bytes", "bytes", float64(len(want)))
		for name, at := range map[string]int{"the first byte flipped": 0, "the last byte flipped": len(want) - 1} {
			got := bytes.Clone(want)
			got[at] ^= 1
			n := seen(len(want))
			r.Controls.Add(ControlResult{Name: name, Fault: "flip", Red: !bytes.Equal(got[:n], want[:n])})
		}
		return r, r.Finish()
	}
	return k
}

func whole(n int) int   { return n }
func blinded(n int) int { return n - 1 } // an off-by-one: it never looks at the last byte

func check(t *testing.T, k Kernel) Summary {
	t.Helper()
	reg, err := NewRegistry(k)
	if err != nil {
		t.Fatal(err)
	}
	return reg.Check(t.Context())
}

func TestAnHonestKernelPassesTheCheck(t *testing.T) {
	s := check(t, comparing(whole))
	if !s.OK() || s.String() != "1 kernels: 1 pass, 0 fail; 2 controls: 2 red as planted, 0 missed; 0 limit problems" {
		t.Errorf("got %s, %+v", s, s.Kernels)
	}
}

func TestABlindedKernelIsReportedAndFails(t *testing.T) {
	s := check(t, comparing(blinded))
	if s.OK() || s.String() != "1 kernels: 0 pass, 1 fail; 2 controls: 1 red as planted, 1 missed; 0 limit problems" {
		t.Errorf("got %s", s)
	}
	if k := s.Kernels[0]; k.Verdict != Undecided || k.Controls.Missed != 1 {
		t.Errorf("got %+v, want it undecided with one missed control", k)
	}
}

func TestWhatAKernelClaimsIsHeldAgainstItsReport(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Kernel)
		want   string
	}{
		"a fault without a control": {func(k *Kernel) { k.Faults = append(k.Faults, "swap") }, `"swap"`},
		"a gate that is not kept":   {func(k *Kernel) { k.Gates[0].Value = 8 }, "gate bytes >= 8 bytes: the report passed with 7"},
		"a gate from above":         {func(k *Kernel) { k.Gates[0] = Gate{"bytes", "bytes", AtMost, 6} }, "gate bytes <= 6 bytes"},
		"a gate on another number":  {func(k *Kernel) { k.Gates[0] = Gate{"bytes", "bytes", Equal, 6} }, "gate bytes == 6 bytes"},
		"a gate without its metric": {func(k *Kernel) { k.Gates[0].Metric = "tensors" }, "passed without that metric"},
		"a gate in another unit":    {func(k *Kernel) { k.Gates[0].Unit = "bits" }, "got the metric in bytes"},
		"a gate of no comparison":   {func(k *Kernel) { k.Gates[0].Compare = "~" }, "passed with 7"},
	} {
		t.Run(name, func(t *testing.T) {
			k := comparing(whole)
			c.change(&k)
			s := check(t, k)
			if s.OK() || s.Failed != 1 || !strings.Contains(s.Kernels[0].Failure, c.want) {
				t.Errorf("got %q, want %q", s.Kernels[0].Failure, c.want)
			}
		})
	}
}

func TestLimitsThatDoNotHoldAreCounted(t *testing.T) {
	k := comparing(whole)
	k.Limits = []Limit{{What: "no probe"}, {What: "wrong", Probe: func(context.Context) error { return errors.New("it was accepted") }}, k.Limits[0]}
	s := check(t, k)
	if s.OK() || s.Failed != 0 || s.LimitProblems != 2 || !strings.HasSuffix(s.String(), "; 2 limit problems") {
		t.Errorf("got %s", s)
	}
	if p := strings.Join(s.Kernels[0].LimitProblems, "\n"); !strings.Contains(p, "no probe shows it") || !strings.Contains(p, "it was accepted") {
		t.Errorf("got %s", p)
	}
}

func TestProbesTellPassingFromRefusing(t *testing.T) {
	passed, failed := Report{Verdict: Passed}, Report{Verdict: Failed, Findings: []Finding{{Check: "version", Got: "1"}}}
	for name, err := range map[string]error{
		"a refusal where it should pass":    Unseen(failed, nil),
		"an error where it should pass":     Unseen(passed, errors.New("x")),
		"a pass where it should be refused": Refuses(passed, nil, "version"),
		"a refusal for another reason":      Refuses(failed, nil, "split"),
		"an error for another reason":       Refuses(Report{}, errors.New("x"), "version"),
	} {
		if err == nil {
			t.Errorf("%s: not told", name)
		}
	}
	if err := errors.Join(Unseen(passed, nil), Refuses(failed, nil, "version"), Refuses(Report{}, errors.New("version 1"), "version")); err != nil {
		t.Error(err)
	}
}
