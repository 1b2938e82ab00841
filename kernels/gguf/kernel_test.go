package gguf

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/hostile"
	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/kerneltest"
)

func TestKernelFindsEveryPlantedFault(t *testing.T) {
	for _, name := range []string{"", "llama-grouped/Q4_K_M.gguf", "llama-grouped/imatrix.gguf", "llama-odd/BF16.gguf"} {
		b := sample()
		if name != "" {
			var err error
			if b, err = os.ReadFile(shared.Path(t, "data", name)); err != nil {
				t.Fatal(err)
			}
		}
		before := bytes.Clone(b)
		r, err := Inspect(context.Background(), bytes.NewReader(b), int64(len(b)), "file")
		if err != nil {
			t.Fatal(err)
		}
		kerneltest.Passes(t, name, Kernel(), r)
		if !bytes.Equal(b, before) {
			t.Errorf("%s: planting changed the input", name)
		}
	}
}

// TestUnchangedPlanIsAccepted shows that controls are red because of their
// fault and not because of how the copy is made.
func TestUnchangedPlanIsAccepted(t *testing.T) {
	b := sample()
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(newPlan(f).view(f)); err != nil {
		t.Error(err)
	}
}

func TestInspectReportsRefusals(t *testing.T) {
	b := sample()
	for name, c := range map[string]struct {
		b     []byte
		check string
		got   string
	}{
		"cut":     {b[:len(b)-40], CheckTruncated, "a file of"},
		"no GGUF": {[]byte("version https://git-lfs.github.com/spec/v1\n"), CheckFormat, "Git LFS pointer"},
	} {
		r, err := Inspect(context.Background(), bytes.NewReader(c.b), int64(len(c.b)), "file")
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != kernels.Failed || r.Findings[0].Check != c.check || !strings.Contains(r.Findings[0].Got, c.got) || r.Controls.Missed != 0 {
			t.Errorf("%s: got %s, %+v", name, r.Verdict, r.Findings)
		}
	}
}

func TestInspectSplit(t *testing.T) {
	parts := splitParts(t, "part")
	r, err := InspectSplit(context.Background(), parts)
	if err != nil || r.Verdict != kernels.Passed || len(r.Inputs) != 3 || r.Controls.Missed != 0 {
		t.Errorf("got %s, %v, %d inputs, %v", r.Verdict, r.Findings, len(r.Inputs), err)
	}
	r, err = InspectSplit(context.Background(), parts[1:])
	if err != nil || r.Verdict != kernels.Failed || r.Findings[0].Check != CheckSplit || !strings.Contains(r.Findings[0].Got, "part 1 (part-00001-of-00003.gguf)") {
		t.Errorf("without its first part: got %s, %v, %v", r.Verdict, r.Findings, err)
	}
}

// TestKernelLimitsAreAsStated tries every limit.
func TestKernelLimitsAreAsStated(t *testing.T) {
	kerneltest.Sound(t, Kernel())
}

// TestReportNamesProfiles: a file that is refused here and loaded by others says so.
func TestReportNamesProfiles(t *testing.T) {
	for _, c := range append(hostile.GGUF(), hostile.Disputed()...) {
		want, ok := map[string][2]float64{"zero dimension": {1, 1}, "gap": {0, 1}, "disputed: big-endian": {0, 1}, "disputed: version 2": {1, 1}}[c.Name]
		if !ok {
			continue
		}
		r, err := Inspect(context.Background(), bytes.NewReader(c.Data), int64(len(c.Data)), c.Name)
		if err != nil {
			t.Fatal(err)
		}
		var got []float64
		for _, m := range r.Metrics {
			if m.Name == "would load" {
				got = append(got, m.Value)
			}
		}
		if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
			t.Errorf("%s: got %v, want %v", c.Name, got, want)
		}
	}
}

// BenchmarkOpen measures header bytes of a file with a vocabulary of 128,000 tokens.
func BenchmarkOpen(b *testing.B) {
	tokens := make([]string, 128_000)
	for i := range tokens {
		tokens[i] = strings.Repeat("t", i%9)
	}
	var file bytes.Buffer
	if err := Write(&file, []KV{{"tokenizer.ggml.tokens", Strings(tokens)}, {"tokenizer.ggml.scores", Float32s(make([]float32, len(tokens)))}}, nil); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(file.Len()))
	for b.Loop() {
		if _, err := Open(bytes.NewReader(file.Bytes()), int64(file.Len())); err != nil {
			b.Fatal(err)
		}
	}
}
