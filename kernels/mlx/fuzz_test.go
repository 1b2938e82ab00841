package mlx

import (
	"context"
	"testing"
	"testing/fstest"

	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// FuzzCompare reads any configuration beside any shard: it may refuse, and must
// neither panic nor pass something whose weights it did not compare.
func FuzzCompare(f *testing.F) {
	source, folder := example()
	f.Add(folder[ConfigName].Data, folder[safetensors.SingleName].Data)
	f.Add([]byte(`{"quantization":{"bits":4,"group_size":64,"model.norm":{"mode":"nvfp4"}}}`), folder[safetensors.SingleName].Data)
	for _, t := range []map[string]stored{
		{"x.weight": {safetensors.U32, []uint64{1 << 40, 0}, nil}, "x.scales": {safetensors.U8, []uint64{1 << 40, 0}, nil}},
		{"x.weight": {safetensors.U32, []uint64{0}, nil}, "x.scales": {safetensors.U8, nil, []byte{1}}},
		{"x.scales": {safetensors.BF16, []uint64{1, 1}, []byte{1, 2}}},
		{exampleMatrix: {safetensors.BF16, []uint64{8, 128}, make([]byte, 2048)}},
	} {
		f.Add([]byte(`{"quantization":{"mode":"nvfp4"}}`), file(t, "mlx"))
	}
	f.Fuzz(func(t *testing.T, config, shard []byte) {
		folder := fstest.MapFS{ConfigName: {Data: config}, safetensors.SingleName: {Data: shard}}
		r, found, err := compareFolders(context.Background(), source, folder, nil)
		if err == nil && len(found) == 0 && len(r.Tensors) == 0 {
			t.Error("accepted a folder of no tensors against a source of two")
		}
	})
}
