package mlx

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/folder/foldertest"
)

// TestMemoryIsBounded compares a matrix of one row of 16 million weights: no
// more than a few chunks are held, and nothing is allocated for each group.
func TestMemoryIsBounded(t *testing.T) {
	const width = 1 << 24
	source, product := t.TempDir(), t.TempDir()
	foldertest.Sparse(t, source, map[string]any{"x.weight": map[string]any{"dtype": "BF16", "shape": []int{1, width}, "data_offsets": []int{0, 2 * width}}}, 2*width)
	groups := width / 64
	foldertest.Sparse(t, product, map[string]any{
		"__metadata__": map[string]string{"format": "mlx"},
		"x.weight":     map[string]any{"dtype": "U32", "shape": []int{1, width / 8}, "data_offsets": []int{0, width / 2}},
		"x.scales":     map[string]any{"dtype": "BF16", "shape": []int{1, groups}, "data_offsets": []int{width / 2, width/2 + 2*groups}},
		"x.biases":     map[string]any{"dtype": "BF16", "shape": []int{1, groups}, "data_offsets": []int{width/2 + 2*groups, width/2 + 4*groups}},
	}, int64(width/2+4*groups))
	if err := os.WriteFile(filepath.Join(product, ConfigName), []byte(`{"quantization": {"bits": 4, "group_size": 64}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Open(os.DirFS(product))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := Compare(context.Background(), os.DirFS(source), m)
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if one, _ := r.Tensor("x.weight"); one.Groups != uint64(groups) || one.Outcome != Bounded {
		t.Errorf("got %+v, want %d groups, within the bound: MLX gives a group of zeros another scale", one, groups)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 8<<20 {
		t.Errorf("got %d bytes allocated for %d bytes of source, want at most 8 MiB", got, 2*width)
	}
}
