package compressed

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
	f.Add(product[configName], product[safetensors.SingleName])
	f.Add([]byte(`{"quantization_config": {"quant_method": "fp8", "weight_block_size": [1, 1]}}`), product[safetensors.SingleName])
	mixed := []byte(`{"quantization_config": {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}}`)
	for _, t := range []map[string]folder.Tensor{
		{"x.weight": {DType: safetensors.F8E4M3, Shape: []uint64{1 << 62, 0}}, "x.weight_scale": {DType: safetensors.F32, Shape: []uint64{0}}},
		{"x.weight": {DType: safetensors.U8, Shape: []uint64{1 << 62, 0}}, "x.weight_scale": {DType: safetensors.F8E4M3, Shape: []uint64{1 << 62, 0}}, "x.weight_scale_2": {DType: safetensors.F32, Data: make([]byte, 4)}},
		{exampleMatrix + ".weight": {DType: safetensors.F8E4M3, Shape: []uint64{4, 64}, Data: make([]byte, 256)}, exampleMatrix + ".weight_scale": {DType: safetensors.F32, Shape: []uint64{4, 1}, Data: make([]byte, 16)}},
	} {
		f.Add(mixed, folder.Safetensors(t, map[string]string{"format": "pt"}))
	}
	f.Fuzz(func(t *testing.T, config, shard []byte) {
		product := memfs.FS{configName: config, safetensors.SingleName: shard}
		r, found, err := compareFolders(context.Background(), source, product, nil)
		if err == nil && len(found) == 0 && len(r.Tensors) == 0 {
			t.Error("accepted a folder of no tensors against a source of two")
		}
		m, err := Open(product)
		if err != nil {
			return
		}
		defer m.Close()
		if s, err := SameWeights(context.Background(), m, m); err == nil && s.Relation == Different {
			for _, f := range s.Findings {
				t.Logf("a folder differs from itself: %v", f)
			}
			t.Error("a folder differs from itself")
		}
	})
}
