package compressed

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/folder/foldertest"
)

// TestMemoryIsBounded compares a matrix of two rows of 4 million weights with
// more scales than are held at once.
func TestMemoryIsBounded(t *testing.T) {
	const width = 1 << 22
	source, product := t.TempDir(), t.TempDir()
	foldertest.Sparse(t, source, map[string]any{"x.weight": map[string]any{"dtype": "BF16", "shape": []int{2, width}, "data_offsets": []int{0, 4 * width}}}, 4*width)
	foldertest.Sparse(t, product, map[string]any{
		"x.weight":       map[string]any{"dtype": "F8_E4M3", "shape": []int{2, width}, "data_offsets": []int{0, 2 * width}},
		"x.weight_scale": map[string]any{"dtype": "F32", "shape": []int{1, width / 16}, "data_offsets": []int{2 * width, 2*width + width/4}},
	}, 2*width+width/4)
	config := `{"quantization_config": {"quant_method": "fp8", "weight_block_size": [2, 16]}}`
	if err := os.WriteFile(filepath.Join(product, configName), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	m := open(t, os.DirFS(product))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := Compare(context.Background(), os.DirFS(source), m)
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if one, _ := r.Tensor("x.weight"); one.Outcome != Bounded || one.Layout != PerBlock {
		t.Errorf("got %+v, want zeros within the bound, by blocks", one)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 8<<20 {
		t.Errorf("got %d bytes allocated for %d bytes of source, want at most 8 MiB", got, 4*width)
	}
}

func BenchmarkJudgeNVFP4(b *testing.B) {
	w, codes := make([]float32, 1<<16), make([]byte, 1<<16)
	for i := range w {
		codes[i] = byte(i * 7 % 16)
		w[i] = NVFP4.value(codes[i]) * 0.5
	}
	j := newJudge(NVFP4)
	b.SetBytes(2 * 1 << 16) // of a BF16 source
	for b.Loop() {
		for i := 0; i < len(w); i += 16 {
			j.span(codes[i:i+16], w[i:i+16], 0.5, 1, 0)
		}
	}
}
