package derive

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/imatrix"
)

// faulty is the real matrix with a change to one entry.
func faulty(t *testing.T, change func(d *imatrix.Data)) Options {
	t.Helper()
	real := withMatrix(t, grouped(t, "imatrix.gguf")).Matrix
	content := imatrix.Content{Datasets: real.Datasets, Chunks: real.Chunks, ChunkSize: real.ChunkSize}
	for _, e := range real.Entries {
		w, _, err := real.Weights(e.Name)
		if err != nil {
			t.Fatal(err)
		}
		d := imatrix.Data{Name: e.Name, Counts: []float32{float32(real.Chunks * real.ChunkSize)}, Sums: w}
		for i := range w {
			w[i] *= d.Counts[0]
		}
		if e.Name == "blk.3.ffn_up.weight" {
			change(&d)
		}
		content.Entries = append(content.Entries, d)
	}
	var out bytes.Buffer
	if err := imatrix.WriteGGUF(&out, content); err != nil {
		t.Fatal(err)
	}
	m, err := imatrix.Open(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return Options{Matrix: m, MatrixDigest: "sha256:faulty"}
}

// TestAFaultyMatrixIsRefusedBeforeItIsUsed: its numbers would make the scales of an honest file look wrong.
func TestAFaultyMatrixIsRefusedBeforeItIsUsed(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, c := range map[string]struct {
		change func(d *imatrix.Data)
		want   string // empty: it is used
	}{
		"nothing":             {func(*imatrix.Data) {}, ""},
		"a wrong chunk":       {func(d *imatrix.Data) { d.Counts[0]++ }, ""},
		"NaN":                 {func(d *imatrix.Data) { d.Sums[5], d.Sums[6] = nan, nan }, "blk.3.ffn_up.weight: got 2 of 256 sums are NaN or infinite"},
		"infinite":            {func(d *imatrix.Data) { d.Sums[5] = inf }, "got 1 of 256 sums are NaN or infinite"},
		"negative":            {func(d *imatrix.Data) { d.Sums[5] = -1 }, "got 1 of 256 sums are below zero"},
		"a block of zeros":    {func(d *imatrix.Data) { clear(d.Sums[32:48]) }, "got 1 of 16 blocks of 16 columns are zero throughout"},
		"zeros":               {func(d *imatrix.Data) { clear(d.Sums) }, "got 16 of 16 blocks of 16 columns are zero throughout"},
		"a count of NaN":      {func(d *imatrix.Data) { d.Counts[0] = nan }, "got 1 of 1 counts are no whole numbers"},
		"numbers are missing": {func(d *imatrix.Data) { d.Sums = d.Sums[:128] }, "got 128 numbers, 1 counts, want 256 columns"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.want == "" {
				arithmetic(t)
			}
			r, err := Compare(t.Context(), gguf1(t, "BF16.gguf"), gguf1(t, "Q4_K_M-im.gguf"), faulty(t, c.change))
			if c.want == "" {
				if err != nil || r.Kind != Quantization {
					t.Errorf("got %q, %v, want it used", r.Kind, err)
				}
				return
			}
			var bad *UncheckedError
			if !errors.As(err, &bad) || len(bad.Findings) == 0 || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q, %v, want a refusal that says: %s", r.Kind, err, c.want)
			}
		})
	}
}

// TestPairsThatAreNotComparedAreSaidSo: nothing is said against either side.
func TestPairsThatAreNotComparedAreSaidSo(t *testing.T) {
	folder := func(path string) Input { return Input{Snapshot: os.DirFS("../../fixtures/" + path)} }
	for name, c := range map[string]struct {
		source, target Input
		want           string
	}{
		"MLX beside a GGUF":       {folder("mlx/affine-4-64"), gguf1(t, "BF16.gguf"), "got a folder that MLX quantized as the source of a GGUF file"},
		"a GGUF beside MLX":       {gguf1(t, "BF16.gguf"), folder("mlx/affine-4-64"), "got a GGUF file as the source of a folder that MLX quantized"},
		"the wrong way round":     {folder("mlx/affine-4-64"), folder("mlx/source"), "as the source of a Hugging Face folder"},
		"FP8 beside MLX":          {folder("compressed/ct-fp8"), folder("mlx/affine-4-64"), "a folder that compressed-tensors or ModelOpt quantized as the source of"},
		"FP8 the wrong way round": {folder("compressed/ct-fp8"), folder("compressed/source"), "as the source of a Hugging Face folder"},
	} {
		_, err := Compare(t.Context(), c.source, c.target, Options{})
		var bad *UncheckedError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want a refusal that says: %s", name, err, c.want)
		}
	}
}

// TestWhatStandsBesideTheWeightsIsJudged: the same weights under other keys are another model.
func TestWhatStandsBesideTheWeightsIsJudged(t *testing.T) {
	snapshot := Input{Snapshot: os.DirFS(grouped(t, "hf"))}
	theta := func(r *rewritten) { r.set("llama.rope.freq_base", gguf.Float32(10000)) }
	for name, c := range map[string]struct {
		source, target Input
		kind           Kind
		want           kernels.Verdict
	}{
		"an honest quantization":              {snapshot, gguf1(t, "Q8_0.gguf"), Quantization, kernels.Passed},
		"RoPE theta defaulted":                {snapshot, withBody(t, "Q8_0.gguf", theta), Quantization, kernels.Failed},
		"RoPE theta of a conversion":          {snapshot, withBody(t, "BF16.gguf", theta), Conversion, kernels.Failed},
		"RoPE theta beside a GGUF":            {gguf1(t, "BF16.gguf"), withBody(t, "Q8_0.gguf", theta), Quantization, kernels.Failed},
		"RoPE theta of what is not made":      {snapshot, withBody(t, "more/IQ3_S.gguf", theta), ErrorOnly, kernels.Failed},
		"a chat template of its own":          {snapshot, withBody(t, "Q8_0.gguf", func(r *rewritten) { r.set(templateKey, gguf.String("{{ evil }}")) }), Quantization, kernels.Failed},
		"another architecture":                {gguf1(t, "BF16.gguf"), withBody(t, "Q8_0.gguf", func(r *rewritten) { r.set("general.architecture", gguf.String("mamba")) }), Quantization, kernels.Failed},
		"another name":                        {gguf1(t, "BF16.gguf"), withBody(t, "Q8_0.gguf", func(r *rewritten) { r.set("general.name", gguf.String("other")) }), Quantization, kernels.Passed},
		"a re-upload, where it is the answer": {gguf1(t, "Q8_0.gguf"), withBody(t, "Q8_0.gguf", theta), MetadataDiffers, kernels.Passed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := Compare(t.Context(), c.source, c.target, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Kind != c.kind || r.MetadataVerdict() != c.want {
				t.Errorf("got %q, %s with %v; want %q, %s", r.Kind, r.MetadataVerdict(), r.Metadata, c.kind, c.want)
			}
			if said := strings.Contains(r.Unproven, "beside the weights does not follow"); said != (c.want == kernels.Failed) {
				t.Errorf("it says: %s", r.Unproven)
			}
		})
	}
}

// TestAFolderIsItself, also where its vocabulary cannot be derived, and is another one with another vocabulary.
func TestAFolderIsItself(t *testing.T) {
	eachArchitecture(t, func(t *testing.T, name string) {
		folder := filepath.Join(architecturesDir, name, "hf")
		r, err := Compare(t.Context(), Input{Snapshot: os.DirFS(folder)}, Input{Snapshot: os.DirFS(folder)}, Options{})
		if err != nil || r.Kind != Identical || len(r.Metadata) > 0 {
			t.Errorf("with itself: got %q, %v, %v, want identical", r.Kind, r.Metadata, err)
		}
		other := t.TempDir()
		if err := os.CopyFS(other, os.DirFS(folder)); err != nil {
			t.Fatal(err)
		}
		file, err := os.OpenFile(filepath.Join(other, "tokenizer_config.json"), os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.WriteString("\n"); err != nil {
			t.Fatal(err)
		}
		r, err = Compare(t.Context(), Input{Snapshot: os.DirFS(folder)}, Input{Snapshot: os.DirFS(other)}, Options{})
		src, failed := open(Input{Snapshot: os.DirFS(folder)})
		if failed != nil {
			t.Fatal(failed)
		}
		defer src.close()
		derived := src.tokenErr == nil // then a line break is nothing
		if err != nil || (r.Kind == Identical) != derived {
			t.Errorf("with other bytes: got %q, %v, %v", r.Kind, r.Metadata, err)
		}
	})
}
