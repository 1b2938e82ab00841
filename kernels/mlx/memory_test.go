package mlx

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/folder"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// sparse writes a file whose tensors are holes of zeros.
func sparse(t *testing.T, dir string, header map[string]any, size int64) {
	t.Helper()
	text := folder.JSON(header)
	path := filepath.Join(dir, safetensors.SingleName)
	if err := os.WriteFile(path, slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(8+len(text))+size); err != nil {
		t.Fatal(err)
	}
}

// TestMemoryIsBounded compares a matrix of one row of 16 million weights: no
// more than a few chunks are held, and nothing is allocated for each group.
func TestMemoryIsBounded(t *testing.T) {
	const width = 1 << 24
	source, product := t.TempDir(), t.TempDir()
	sparse(t, source, map[string]any{"x.weight": map[string]any{"dtype": "BF16", "shape": []int{1, width}, "data_offsets": []int{0, 2 * width}}}, 2*width)
	groups := width / 64
	sparse(t, product, map[string]any{
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
