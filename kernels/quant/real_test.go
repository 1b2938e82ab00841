package quant

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// TestDequantizationEqualsLlamaCpp compares with what llama.cpp's own Python
// reader, gguf 0.19.0, gives for files that llama-quantize made. testdata/tensors.json has,
// tensor by tensor, the first eight bytes of the SHA-256 of the float32 weights:
//
//	dequantize.py llama-grouped/*.gguf llama-grouped/more/*.gguf llama-odd/*.gguf
func TestDequantizationEqualsLlamaCpp(t *testing.T) {
	raw, err := os.ReadFile("testdata/tensors.json")
	if err != nil {
		t.Fatal(err)
	}
	var files map[string]map[string]string
	if err := json.Unmarshal(raw, &files); err != nil {
		t.Fatal(err)
	}
	data, seen := shared.Path(t, "data"), map[gguf.Type]bool{}
	for file, digests := range files {
		f, model := openModel(t, filepath.Join(data, file))
		for _, tensor := range model.Tensors {
			seen[tensor.Type] = true
			if len(digests) != len(model.Tensors) || digests[tensor.Name] == "" {
				t.Fatalf("%s: the digests are of other tensors; make testdata/tensors.json anew", file)
			}
		}
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			defer f.Close()
			for _, tensor := range model.Tensors {
				weights := readTensor(t, model, tensor)
				out := make([]byte, 4*len(weights))
				quantizeF32(out, weights)
				if sum := sha256.Sum256(out); hex.EncodeToString(sum[:8]) != digests[tensor.Name] {
					t.Errorf("%s, %s: got weights with digest %x, want %s", tensor.Name, tensor.Type, sum[:8], digests[tensor.Name])
				}
			}
		})
	}
	for _, typ := range []gguf.Type{
		gguf.F32, gguf.BF16, gguf.Q8_0, gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q2_K, gguf.Q3_K, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K,
		gguf.IQ1_S, gguf.IQ1_M, gguf.IQ2_XXS, gguf.IQ2_XS, gguf.IQ2_S, gguf.IQ3_XXS, gguf.IQ3_S, gguf.IQ4_NL, gguf.IQ4_XS, gguf.TQ1_0, gguf.TQ2_0,
	} {
		if !seen[typ] {
			t.Errorf("no file has a tensor of type %s", typ)
		}
	}
}

func openModel(t *testing.T, path string) (*os.File, *gguf.File) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	model, err := gguf.Open(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	return f, model
}

func readTensor(t *testing.T, model *gguf.File, tensor gguf.TensorInfo) []float32 {
	t.Helper()
	codec, err := For(tensor.Type)
	if err != nil {
		t.Fatal(err)
	}
	body, weights := make([]byte, tensor.Size), make([]float32, tensor.Elements())
	if _, err := model.Section(tensor).ReadAt(body, 0); err != nil {
		t.Fatal(err)
	}
	codec.Dequantize(weights, body)
	return weights
}
