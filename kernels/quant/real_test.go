package quant

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// TestDequantizationEqualsLlamaCpp compares with what gguf-py, llama.cpp's own
// Python reader, gives for files that llama-quantize made: the first eight bytes
// of the SHA-256 over all float32 weights of one type, tensor after tensor.
func TestDequantizationEqualsLlamaCpp(t *testing.T) {
	for _, c := range []struct {
		file string
		typ  gguf.Type
		want string
	}{
		{"Q8_0.gguf", gguf.Q8_0, "f38548ffc6f61115"},
		{"Q6_K.gguf", gguf.Q6_K, "61ca7f469a89b03f"},
		{"Q5_K_M.gguf", gguf.Q5_K, "1b97b40794f155dc"},
		{"Q5_K_M.gguf", gguf.Q6_K, "71026d35e270b9b3"},
		{"Q4_K_M.gguf", gguf.Q4_K, "514d335df8f31860"},
		{"Q3_K_M.gguf", gguf.Q3_K, "3aba19a31158b134"},
		{"Q3_K_M.gguf", gguf.Q4_K, "96021b7339096ced"},
		{"Q3_K_M.gguf", gguf.Q5_K, "4942a7f956c964c2"},
		{"more/Q2_K.gguf", gguf.Q2_K, "5946fac291111f6a"},
		{"more/Q2_K.gguf", gguf.Q3_K, "77cd6b3b8158ffd1"},
		{"more/Q4_0.gguf", gguf.Q4_0, "8a592131536a22ca"},
		{"more/Q4_1.gguf", gguf.Q4_1, "aadf3a46b5447da2"},
		{"more/Q5_0.gguf", gguf.Q5_0, "2b5929a6deaba344"},
		{"more/Q5_1.gguf", gguf.Q5_1, "85963d3665d0373b"},
	} {
		t.Run(c.typ.String()+" of "+c.file, func(t *testing.T) {
			f, err := os.Open(filepath.Join(shared.Path(t, "data", "llama-grouped"), c.file))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			info, err := f.Stat()
			if err != nil {
				t.Fatal(err)
			}
			model, err := gguf.Open(f, info.Size())
			if err != nil {
				t.Fatal(err)
			}
			codec, err := For(c.typ)
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.New()
			for _, tensor := range model.Tensors {
				if tensor.Type != c.typ {
					continue
				}
				body, weights := make([]byte, tensor.Size), make([]float32, tensor.Elements())
				if _, err := model.Section(tensor).ReadAt(body, 0); err != nil {
					t.Fatal(err)
				}
				codec.Dequantize(weights, body)
				out := make([]byte, 4*len(weights))
				quantizeF32(out, weights)
				sum.Write(out)
			}
			if got := hex.EncodeToString(sum.Sum(nil)[:8]); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
