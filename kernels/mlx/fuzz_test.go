package mlx

import (
	"context"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/folder"
	"github.com/weighmaster/weighmaster/kernels/memfs"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// FuzzCompare reads any configuration beside any shard: it may refuse, and must
// neither panic nor pass something whose weights it did not compare.
func FuzzCompare(f *testing.F) {
	source, product := example()
	f.Add(product[ConfigName], product[safetensors.SingleName])
	f.Add([]byte(`{"quantization":{"bits":4,"group_size":64,"model.norm":{"mode":"nvfp4"}}}`), product[safetensors.SingleName])
	for _, t := range []map[string]folder.Tensor{
		{"x.weight": {DType: safetensors.U32, Shape: []uint64{1 << 40, 0}, Data: nil}, "x.scales": {DType: safetensors.U8, Shape: []uint64{1 << 40, 0}, Data: nil}},
		{"x.weight": {DType: safetensors.U32, Shape: []uint64{0}, Data: nil}, "x.scales": {DType: safetensors.U8, Shape: nil, Data: []byte{1}}},
		{"x.scales": {DType: safetensors.BF16, Shape: []uint64{1, 1}, Data: []byte{1, 2}}},
		{exampleMatrix: {DType: safetensors.BF16, Shape: []uint64{8, 128}, Data: make([]byte, 2048)}},
	} {
		f.Add([]byte(`{"quantization":{"mode":"nvfp4"}}`), folder.Safetensors(t, map[string]string{"format": "mlx"}))
	}
	f.Fuzz(func(t *testing.T, config, shard []byte) {
		product := memfs.FS{ConfigName: config, safetensors.SingleName: shard}
		r, found, err := compareFolders(context.Background(), source, product, nil)
		if err == nil && len(found) == 0 && len(r.Tensors) == 0 {
			t.Error("accepted a product of no tensors against a source of two")
		}
	})
}
