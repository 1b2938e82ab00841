package derive

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/quant"
	"github.com/weighmaster/weighmaster/kernels/recipe"
)

// storedAs is the real BF16 file with its matrices in another unquantized type; noise
// makes numbers that the type can hold and BF16 cannot.
func storedAs(t *testing.T, typ gguf.Type, noise bool) File {
	t.Helper()
	from, _ := quant.For(gguf.BF16)
	to, err := quant.Writer(typ)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 6))
	return rewrite(t, grouped(t, "BF16.gguf"), func(t *testing.T, f *rewritten) {
		for i := range f.tensors {
			if f.tensors[i].Type != gguf.BF16 {
				continue
			}
			name := f.tensors[i].Name
			weights := make([]float32, len(f.bodies[name])/2)
			from.Dequantize(weights, f.bodies[name])
			for j := range weights {
				if noise {
					weights[j] += float32(weights[j] * float32(r.Float32()*0.003))
				}
			}
			f.bodies[name] = make([]byte, to.Size(int64(len(weights))))
			to.Quantize(f.bodies[name], weights)
			f.tensors[i].Type = typ
		}
		f.set("general.file_type", gguf.Uint32(map[gguf.Type]uint32{gguf.F32: convert.FileF32, gguf.F16: convert.FileF16}[typ]))
	})
}

func opened(t *testing.T, f File) *gguf.File {
	t.Helper()
	g, err := gguf.Open(f.R, f.Size)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// quantizedAs quantizes a file under a recipe.
func quantizedAs(t *testing.T, f File, name string) File {
	t.Helper()
	r, ok := recipe.Find(name)
	if !ok {
		t.Fatalf("no recipe %s", name)
	}
	var out bytes.Buffer
	if err := convert.Quantize(t.Context(), opened(t, f), convert.QuantizeOptions{Recipe: r}, &out); err != nil {
		t.Fatal(err)
	}
	return File{R: bytes.NewReader(out.Bytes()), Size: int64(out.Len())}
}

// TestSourcesOfOtherPrecision: F32 and F16 sources, straight and through a narrower intermediate that is named.
func TestSourcesOfOtherPrecision(t *testing.T) {
	arithmetic(t)
	wide, half := storedAs(t, gguf.F32, true), storedAs(t, gguf.F16, true)
	narrow := File{}
	{
		bf16, _ := quant.Writer(gguf.BF16)
		f32, _ := quant.For(gguf.F32)
		plain := storedAs(t, gguf.F32, true)
		g := opened(t, plain)
		var sources []gguf.TensorSource
		for _, info := range g.Tensors {
			s := g.Source(info)
			if convert.Quantizes(info.Name, info.Dims) {
				body := make([]byte, info.Size)
				if _, err := g.Section(info).ReadAt(body, 0); err != nil {
					t.Fatal(err)
				}
				weights := make([]float32, len(body)/4)
				f32.Dequantize(weights, body)
				made := make([]byte, bf16.Size(int64(len(weights))))
				bf16.Quantize(made, weights)
				s.Type, s.Data = gguf.BF16, writes(made)
			}
			sources = append(sources, s)
		}
		var out bytes.Buffer
		if err := gguf.Write(&out, g.KVs, sources); err != nil {
			t.Fatal(err)
		}
		narrow = File{R: bytes.NewReader(out.Bytes()), Size: int64(out.Len())}
	}
	for _, c := range []struct {
		name           string
		source, target File
		kind           Kind
		via            string
	}{
		{"F32 to Q6_K", wide, quantizedAs(t, wide, "Q6_K"), Quantization, ""},
		{"F16 to Q4_K_M", half, quantizedAs(t, half, "Q4_K_M"), Quantization, ""},
		{"F32 through BF16 to Q6_K", wide, quantizedAs(t, narrow, "Q6_K"), Quantization, "BF16"},
		{"F32 to BF16", wide, narrow, Conversion, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, err := Compare(t.Context(), Input{GGUF: &c.source}, Input{GGUF: &c.target}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Kind != c.kind || r.Class != ClassA || r.Intermediate != c.via {
				t.Errorf("got %q, class %q, through %q, want %q, A, through %q\n%.300s", r.Kind, r.Class, r.Intermediate, c.kind, c.via, r.Findings)
			}
		})
	}
}

// TestAQuantizedSourceStaysUndecided: the Q4_K_M that was made from the Q8_0, beside that Q8_0.
func TestAQuantizedSourceStaysUndecided(t *testing.T) {
	r, err := Compare(t.Context(), gguf1(t, "Q8_0.gguf"), gguf1(t, "forged", "Q4_K_M-made-from-Q8_0.gguf"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Kind != ErrorOnly || r.Class != ClassD || !strings.Contains(r.Findings[0].String(), "made from the quantized type Q8_0 is not recomputed") {
		t.Errorf("got %q, class %q, %.200s; want the error only", r.Kind, r.Class, r.Findings)
	}
}

// TestAnotherModelOfTheSameShapesIsNotDerived in a type that is not recomputed: its error says so.
func TestAnotherModelOfTheSameShapesIsNotDerived(t *testing.T) {
	other := withBody(t, "BF16.gguf", func(r *rewritten) {
		body := r.bodies[victim]
		for i, j := 0, len(body)-2; i < j; i, j = i+2, j-2 {
			body[i], body[i+1], body[j], body[j+1] = body[j], body[j+1], body[i], body[i+1]
		}
	})
	r, err := Compare(t.Context(), other, gguf1(t, "more", "IQ3_S.gguf"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Kind != NotDerived {
		t.Errorf("got %q, class %q, want not derived", r.Kind, r.Class)
	}
}

// TestTheVerdictOfACheck: A and B pass, C and D are undecided, a matrix that does not fit fails.
func TestTheVerdictOfACheck(t *testing.T) {
	arithmetic(t)
	matrix := withMatrix(t, grouped(t, "imatrix.gguf"))
	for _, c := range []struct {
		file    string
		with    Options
		verdict kernels.Verdict
		words   string // of the first finding
		metric  string // that counts 28 or 30 tensors
	}{
		{"Q6_K.gguf", Options{}, kernels.Passed, "", "tensors_bit_exact"},
		{"Q6_K-im.gguf", matrix, kernels.Passed, "", "tensors_bit_exact"},
		{"Q6_K-im.gguf", Options{}, kernels.Undecided, "scales free: tensor blk.0.attn_k.weight", "tensors_scales_free"},
		{"Q6_K-im.gguf", otherCorpus(t), kernels.Failed, "the product was made with another matrix", "tensors_scales_free"},
		{"IQ4_XS-im.gguf", Options{}, kernels.Undecided, "not recomputed: tensor ", "tensors_error_only"},
	} {
		f := readFile(t, grouped(t, c.file))
		report, err := Check(t.Context(), gguf1(t, "BF16.gguf"), f, c.with)
		if err != nil {
			t.Fatal(err)
		}
		if report.Verdict != c.verdict || report.Controls.Missed > 0 || metric(report, c.metric) < 20 {
			t.Errorf("%s: got %s with %d missed controls, %s %v; want %s", c.file, report.Verdict, report.Controls.Missed, c.metric, metric(report, c.metric), c.verdict)
		}
		if c.words != "" && (len(report.Findings) == 0 || !strings.Contains(report.Findings[0].String(), c.words)) {
			t.Errorf("%s: got %.300s, want the finding: %s", c.file, report.Findings, c.words)
		}
		if n := metric(report, "tensors_differing"); n != 0 {
			t.Errorf("%s: tensors_differing: got %v, want 0", c.file, n)
		}
	}
}

func writes(body []byte) func(io.Writer) error {
	return func(w io.Writer) error { _, err := w.Write(body); return err }
}
