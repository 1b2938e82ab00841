package derive

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/kernels/imatrix"
)

// grouped is the folder of the real model whose rows every block divides.
func grouped(t testing.TB, path ...string) string {
	return filepath.Join(append([]string{shared.Path(t, "data", "llama-grouped")}, path...)...)
}

func gguf1(t testing.TB, path ...string) Input {
	f := readFile(t, grouped(t, path...))
	return Input{GGUF: &f}
}

// withMatrix opens an importance matrix.
func withMatrix(t testing.TB, path string) Options {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	m, err := imatrix.Open(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	return Options{Matrix: m, MatrixDigest: "sha256:for-the-test"}
}

// TestEveryRealQuantization takes every file that llama-quantize made of the real model.
func TestEveryRealQuantization(t *testing.T) {
	none, matrix := Options{}, withMatrix(t, grouped(t, "imatrix.gguf"))
	for i, c := range []struct {
		file  string
		with  Options
		kind  Kind
		class Class
		build string
		used  int // tensors that fit the matrix
	}{
		{"more/Q4_0-im.gguf", matrix, Quantization, ClassA, "plain", 28},
		{"Q8_0.gguf", none, Quantization, ClassA, "", 0},
		{"Q6_K.gguf", none, Quantization, ClassA, "plain", 0},
		{"Q5_K_M.gguf", none, Quantization, ClassA, "plain", 0},
		{"Q4_K_M.gguf", none, Quantization, ClassA, "plain", 0},
		{"Q4_K_M.gguf", matrix, Quantization, ClassA, "plain", 0},
		{"Q3_K_M.gguf", none, Quantization, ClassA, "plain", 0},
		{"IQ4_XS.gguf", none, Quantization, ClassA, "plain", 0},
		{"more/Q2_K.gguf", none, Quantization, ClassA, "plain", 0},
		{"more/IQ4_NL.gguf", none, Quantization, ClassA, "plain", 0},
		{"more/Q4_0.gguf", none, Quantization, ClassA, "plain", 0},
		{"more/Q4_1.gguf", none, Quantization, ClassA, "plain", 0},
		{"more/Q5_0.gguf", none, Quantization, ClassA, "plain", 0},
		{"more/Q5_1.gguf", none, Quantization, ClassA, "plain", 0},
		{"Q6_K-im.gguf", matrix, Quantization, ClassA, "plain", 28},
		{"Q5_K_M-im.gguf", matrix, Quantization, ClassA, "plain", 28},
		{"Q4_K_M-im.gguf", matrix, Quantization, ClassA, "plain", 28},
		{"Q4_K_S-im.gguf", matrix, Quantization, ClassA, "plain", 28},
		{"Q3_K_M-im.gguf", matrix, Quantization, ClassA, "plain", 28},
		{"IQ4_XS-im.gguf", matrix, Quantization, ClassA, "plain", 28},
		{"more/Q2_K-im.gguf", matrix, Quantization, ClassA, "plain", 28},
		{"more/Q5_0-im.gguf", matrix, Quantization, ClassA, "plain", 28},
		{"fma-build/Q6_K.gguf", none, Quantization, ClassA, "gcc-fma", 0},
		{"fma-build/Q5_K_M.gguf", none, Quantization, ClassA, "gcc-fma-zen", 0},
		{"fma-build/IQ4_XS.gguf", none, Quantization, ClassA, "gcc-fma", 0},
		{"fma-build/Q4_K_M-im.gguf", matrix, Quantization, ClassA, "gcc-fma-zen", 28},
		{"Q6_K-im.gguf", none, Quantization, ClassC, "", 0},
		{"Q5_K_M-im.gguf", none, Quantization, ClassC, "", 0},
		{"Q4_K_M-im.gguf", none, Quantization, ClassC, "", 0},
		{"fma-build/Q4_K_M-im.gguf", none, Quantization, ClassC, "", 0},
		{"IQ4_XS-im.gguf", none, ErrorOnly, ClassD, "", 0},
		{"more/Q4_0-im.gguf", none, ErrorOnly, ClassD, "", 0},
		{"more/TQ1_0.gguf", none, Quantization, ClassA, "plain", 0},
		{"more/IQ1_M-im.gguf", matrix, ErrorOnly, ClassD, "", 4},
		{"more/IQ2_M-im.gguf", matrix, ErrorOnly, ClassD, "", 4},
		{"more/IQ3_S.gguf", none, ErrorOnly, ClassD, "", 0},
		{"forged/Q4_K_M-made-from-Q8_0.gguf", none, NotDerived, None, "", 0},
		{"forged/Q4_K_M-made-from-Q8_0.gguf", matrix, NotDerived, None, "", 0},
	} {
		if i%thin != 0 {
			continue
		}
		name := c.file
		if c.with.Matrix != nil {
			name += " with the matrix"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := Compare(t.Context(), gguf1(t, "BF16.gguf"), gguf1(t, c.file), c.with)
			if err != nil {
				t.Fatal(err)
			}
			if r.Kind != c.kind || r.Class != c.class || r.Build != c.build {
				t.Errorf("got %q, class %q, build %q; want %q, %q, %q\nfindings: %.500s", r.Kind, r.Class, r.Build, c.kind, c.class, c.build, r.Findings)
			}
			if used := 0; r.Matrix != nil {
				if used = len(r.Matrix.Used); used != c.used {
					t.Errorf("got %d tensors that fit the matrix, want %d", used, c.used)
				}
				for _, f := range r.Matrix.Findings {
					t.Logf("matrix: %s", f)
				}
			}
		})
	}
}

// arithmetic marks a test of numbers alone: the race detector has nothing to find in it that others do not have.
func arithmetic(t *testing.T) {
	t.Helper()
	if thin > 1 {
		t.Skip("arithmetic alone; it runs without the race detector")
	}
}
