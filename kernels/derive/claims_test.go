package derive

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// TestTensorsOfTwoBuildsAreNoOneBuilds: each is exact under a build, the file under none, so that its digest is nobody's.
func TestTensorsOfTwoBuildsAreNoOneBuilds(t *testing.T) {
	arithmetic(t)
	arithmetic(t)
	other := readFile(t, grouped(t, "fma-build", "Q4_K_M.gguf"))
	f, err := gguf.Open(other.R, other.Size)
	if err != nil {
		t.Fatal(err)
	}
	info, _ := f.Tensor(victim)
	body, err := io.ReadAll(f.Section(info))
	if err != nil {
		t.Fatal(err)
	}
	mixed := withBody(t, "Q4_K_M.gguf", func(r *rewritten) {
		if bytes.Equal(r.bodies[victim], body) {
			t.Fatal("both builds made the same tensor")
		}
		r.bodies[victim] = body
	})
	r, err := Compare(t.Context(), gguf1(t, "BF16.gguf"), mixed, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Kind != Quantization || r.Class != ClassB || r.Build != "" || r.Whole != nil || !strings.Contains(r.Unproven, "no single build makes them all") {
		t.Errorf("got %q, class %q, build %q, whole %v, %q; want class B and no build", r.Kind, r.Class, r.Build, r.Whole, r.Unproven)
	}
}

// TestTheNumberOfEntriesIsHeldAgainstTheMatrix at hand, where the target claims another one.
func TestTheNumberOfEntriesIsHeldAgainstTheMatrix(t *testing.T) {
	arithmetic(t)
	arithmetic(t)
	for entries, want := range map[uint32]int{28: 0, 27: 1} {
		target := withBody(t, "Q6_K-im.gguf", func(r *rewritten) { r.set(matrixEntriesKey, gguf.Int32(int32(entries))) })
		r, err := Compare(t.Context(), gguf1(t, "BF16.gguf"), target, withMatrix(t, grouped(t, "imatrix.gguf")))
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Matrix.Findings) != want || want == 1 && !strings.Contains(r.Matrix.Findings[0].String(), "got 27, want 28; the matrix at hand has that many entries") {
			t.Errorf("%d entries claimed: got %v, want %d findings", entries, r.Matrix.Findings, want)
		}
	}
}

// TestTheFileOfASplitTargetIsNotClaimed: its parts are other files than the whole one that could be recomputed.
func TestTheFileOfASplitTargetIsNotClaimed(t *testing.T) {
	whole := readFile(t, "../../fixtures/split/whole.gguf")
	var parts []gguf.Part
	for _, name := range gguf.PartNames("../../fixtures/split/part-00001-of-00003.gguf") {
		f := readFile(t, name)
		parts = append(parts, gguf.Part{Name: name, R: f.R, Size: f.Size})
	}
	r, err := Compare(t.Context(), Input{GGUF: &whole}, Input{Parts: parts}, Options{})
	if err != nil || r.Kind != Identical || r.Class != ClassA || r.Whole != nil {
		t.Errorf("got %q, class %q, whole %v, %v; want identical and no file", r.Kind, r.Class, r.Whole, err)
	}
	if r, err = Compare(t.Context(), Input{Parts: parts}, Input{GGUF: &whole}, Options{}); err != nil || r.Kind != Identical {
		t.Errorf("the other way round: got %q, %v", r.Kind, err)
	}
}
