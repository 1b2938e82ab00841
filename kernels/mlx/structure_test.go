package mlx

import (
	"errors"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/folder"
	"github.com/weighmaster/weighmaster/kernels/memfs"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// TestPartsThatDoNotFitAreNamed: each part of a matrix that is missing, of another type or of another shape.
func TestPartsThatDoNotFitAreNamed(t *testing.T) {
	sizes := map[safetensors.DType]uint64{safetensors.U32: 4, safetensors.BF16: 2, safetensors.F16: 2, safetensors.U8: 1, safetensors.F32: 4}
	zeros := func(d safetensors.DType, shape ...uint64) folder.Tensor {
		n := sizes[d]
		for _, x := range shape {
			n *= x
		}
		return folder.Tensor{DType: d, Shape: shape, Data: make([]byte, n)}
	}
	u32, bf16, f16, u8, f32 := safetensors.U32, safetensors.BF16, safetensors.F16, safetensors.U8, safetensors.F32
	const affine, mxfp4, nvfp4 = `{"bits":4,"group_size":64}`, `{"bits":4,"group_size":32,"mode":"mxfp4"}`, `{"bits":4,"group_size":16,"mode":"nvfp4"}`
	for name, c := range map[string]struct {
		quantization string
		tensors      map[string]folder.Tensor
		want         string // empty: it fits
	}{
		"affine":                     {affine, map[string]folder.Tensor{"x.weight": zeros(u32, 2, 8), "x.scales": zeros(bf16, 2, 1), "x.biases": zeros(bf16, 2, 1)}, ""},
		"mxfp4":                      {mxfp4, map[string]folder.Tensor{"x.weight": zeros(u32, 2, 8), "x.scales": zeros(u8, 2, 2)}, ""},
		"nvfp4 with a global scale":  {nvfp4, map[string]folder.Tensor{"x.weight": zeros(u32, 3, 2, 8), "x.scales": zeros(u8, 3, 2, 4), "x.global_scale": zeros(f32, 3)}, ""},
		"no codes":                   {affine, map[string]folder.Tensor{"x.scales": zeros(bf16, 2, 1), "x.biases": zeros(bf16, 2, 1)}, "x.weight: got absent beside x.scales, want the codes"},
		"codes without scales":       {affine, map[string]folder.Tensor{"x.weight": zeros(u32, 2, 8)}, "x.weight: got U32 without x.scales"},
		"biases alone":               {affine, map[string]folder.Tensor{"x.weight": zeros(bf16, 2, 8), "x.biases": zeros(bf16, 2, 1)}, "x.biases: got BF16 without x.scales"},
		"a global scale alone":       {nvfp4, map[string]folder.Tensor{"x.weight": zeros(bf16, 2, 8), "x.global_scale": zeros(f32)}, "x.global_scale: got F32 without x.scales"},
		"codes of BF16":              {affine, map[string]folder.Tensor{"x.weight": zeros(bf16, 2, 8), "x.scales": zeros(bf16, 2, 1), "x.biases": zeros(bf16, 2, 1)}, "want a U32 matrix of packed codes"},
		"codes in a row":             {affine, map[string]folder.Tensor{"x.weight": zeros(u32, 8), "x.scales": zeros(bf16, 1), "x.biases": zeros(bf16, 1)}, "want a U32 matrix of packed codes"},
		"scales of U8 in affine":     {affine, map[string]folder.Tensor{"x.weight": zeros(u32, 2, 8), "x.scales": zeros(u8, 2, 1), "x.biases": zeros(u8, 2, 1)}, "got U8, want F32, F16 or BF16, mode affine"},
		"no biases":                  {affine, map[string]folder.Tensor{"x.weight": zeros(u32, 2, 8), "x.scales": zeros(bf16, 2, 1)}, "x.biases: got absent"},
		"biases of another type":     {affine, map[string]folder.Tensor{"x.weight": zeros(u32, 2, 8), "x.scales": zeros(bf16, 2, 1), "x.biases": zeros(f16, 2, 1)}, "x.biases: got F16 [2 1], want BF16 [2 1]"},
		"biases of another shape":    {affine, map[string]folder.Tensor{"x.weight": zeros(u32, 2, 8), "x.scales": zeros(bf16, 2, 1), "x.biases": zeros(bf16, 1, 2)}, "x.biases: got BF16 [1 2]"},
		"biases in mxfp4":            {mxfp4, map[string]folder.Tensor{"x.weight": zeros(u32, 2, 8), "x.scales": zeros(u8, 2, 2), "x.biases": zeros(u8, 2, 2)}, "x.biases: got present, want none in mode mxfp4"},
		"scales of BF16 in mxfp4":    {mxfp4, map[string]folder.Tensor{"x.weight": zeros(u32, 2, 8), "x.scales": zeros(bf16, 2, 2)}, "x.scales: got BF16, want U8, mode mxfp4"},
		"a global scale in mxfp4":    {mxfp4, map[string]folder.Tensor{"x.weight": zeros(u32, 2, 8), "x.scales": zeros(u8, 2, 2), "x.global_scale": zeros(f32)}, "mode mxfp4, want F32, one for each matrix, mode nvfp4"},
		"too few global scales":      {nvfp4, map[string]folder.Tensor{"x.weight": zeros(u32, 3, 2, 8), "x.scales": zeros(u8, 3, 2, 4), "x.global_scale": zeros(f32, 2)}, "want F32, one for each matrix"},
		"too few scales":             {affine, map[string]folder.Tensor{"x.weight": zeros(u32, 2, 16), "x.scales": zeros(bf16, 2, 1), "x.biases": zeros(bf16, 2, 1)}, "got [2 16] words and scales [2 1], want shapes that affine 4 bits, groups of 64 gives"},
		"scales of another row":      {affine, map[string]folder.Tensor{"x.weight": zeros(u32, 2, 8), "x.scales": zeros(bf16, 3, 1), "x.biases": zeros(bf16, 3, 1)}, "got [2 8] words and scales [3 1]"},
		"scales of two dimensions":   {affine, map[string]folder.Tensor{"x.weight": zeros(u32, 2, 2, 8), "x.scales": zeros(bf16, 4, 1), "x.biases": zeros(bf16, 4, 1)}, "got [2 2 8] words and scales [4 1]"},
		"a matrix without any words": {affine, map[string]folder.Tensor{"x.weight": zeros(u32, 2, 0), "x.scales": zeros(bf16, 2, 0), "x.biases": zeros(bf16, 2, 0)}, "got [2 0] words"},
	} {
		m, err := Open(memfs.FS{
			ConfigName:             []byte(`{"quantization":` + c.quantization + `}`),
			safetensors.SingleName: folder.Safetensors(c.tensors, map[string]string{"format": "mlx"}),
		})
		switch bad := (*Error)(nil); {
		case c.want == "" && err != nil:
			t.Errorf("%s: got %v, want it read", name, err)
		case c.want != "" && (!errors.As(err, &bad) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want a refusal that says %q", name, err, c.want)
		}
		if err == nil {
			m.Close()
		}
	}
}
