package quant

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// model opens a file of the shared data.
func model(t testing.TB, elem ...string) *gguf.File {
	t.Helper()
	path := shared.Path(t, append([]string{"data"}, elem...)...)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	m, err := gguf.Open(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// body reads a tensor's bytes.
func body(t testing.TB, m *gguf.File, tensor gguf.TensorInfo) []byte {
	t.Helper()
	p := make([]byte, tensor.Size)
	if _, err := m.Section(tensor).ReadAt(p, 0); err != nil {
		t.Fatal(err)
	}
	return p
}

// floats reads the weights of a named tensor.
func floats(t testing.TB, m *gguf.File, name string) []float32 {
	t.Helper()
	tensor, ok := m.Tensor(name)
	if !ok {
		t.Fatalf("no tensor %s", name)
	}
	c, err := For(tensor.Type)
	if err != nil {
		t.Fatal(err)
	}
	weights := make([]float32, tensor.Elements())
	c.Dequantize(weights, body(t, m, tensor))
	return weights
}

// importanceOf reads a tensor's importance as llama-quantize uses it: the sum of squares of its
// inputs over their count, 1 where none was counted. Nil where the matrix has no entry.
func importanceOf(t testing.TB, matrix *gguf.File, name string) []float32 {
	t.Helper()
	if _, ok := matrix.Tensor(name + ".in_sum2"); !ok {
		return nil
	}
	sums, counts := floats(t, matrix, name+".in_sum2"), floats(t, matrix, name+".counts")
	per := len(sums) / len(counts)
	for i := range sums {
		if count := counts[i/per]; count > 0 {
			sums[i] /= count
		} else {
			sums[i] = 1
		}
	}
	return sums
}

// matrixFor opens the importance matrix of the files whose names say that they used it.
func matrixFor(t testing.TB, name string) *gguf.File {
	if !strings.Contains(name, "-im.") {
		return nil
	}
	return model(t, "llama-grouped", "imatrix.gguf")
}

// madeBy lists the files of one build: those of its folders below llama-grouped.
func madeBy(t testing.TB, folders ...string) (files []string) {
	t.Helper()
	root := shared.Path(t, "data", "llama-grouped")
	for _, folder := range folders {
		paths, err := filepath.Glob(filepath.Join(root, folder, "*.gguf"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			name, err := filepath.Rel(root, p)
			if err != nil {
				t.Fatal(err)
			}
			if name != "imatrix.gguf" && name != "BF16.gguf" {
				files = append(files, name)
			}
		}
	}
	if len(files) == 0 {
		t.Fatalf("no files in %v", folders)
	}
	return files
}

// recompute compares every tensor of a real file whose type is recomputed, and
// counts the blocks of each type and those that differ.
func recompute(t *testing.T, source, target, matrix *gguf.File, v Variant) (blocks, differ map[gguf.Type]int) {
	t.Helper()
	blocks, differ = map[gguf.Type]int{}, map[gguf.Type]int{}
	for _, tensor := range target.Tensors {
		q, err := NewQuantizer(tensor.Type, v)
		if err != nil {
			continue
		}
		var importance []float32
		if matrix != nil {
			importance = importanceOf(t, matrix, tensor.Name)
		}
		want, weights := body(t, target, tensor), floats(t, source, tensor.Name)
		width := int(tensor.Dims[0])
		c := codecs[tensor.Type]
		rowBytes := int(c.Size(int64(width)))
		got := make([]byte, rowBytes)
		for row := 0; row*width < len(weights); row += thin {
			q.Rows(got, weights[row*width:][:width], width, importance)
			for at := 0; at < rowBytes; at += c.Bytes {
				blocks[tensor.Type]++
				if !bytes.Equal(got[at:][:c.Bytes], want[row*rowBytes+at:][:c.Bytes]) {
					differ[tensor.Type]++
				}
			}
		}
	}
	return blocks, differ
}

// TestPlainBuildIsRecomputed compares all files that a plain x86-64 llama-quantize made, block
// by block, for every type that is recomputed.
func TestPlainBuildIsRecomputed(t *testing.T) {
	for _, name := range madeBy(t, "", "more") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			blocks, differ := recompute(t, model(t, "llama-grouped", "BF16.gguf"), model(t, "llama-grouped", name), matrixFor(t, name), Plain)
			for typ, n := range blocks {
				if differ[typ] != 0 {
					t.Errorf("%s: %d of %d blocks differ", typ, differ[typ], n)
				}
			}
			t.Log(name, summary(blocks))
		})
	}
}

// TestRowsThat256DoesNotDivideAreRecomputed covers the types that llama-quantize falls back to.
func TestRowsThat256DoesNotDivideAreRecomputed(t *testing.T) {
	blocks, differ := recompute(t, model(t, "llama-odd", "BF16.gguf"), model(t, "llama-odd", "Q4_K_M.gguf"), nil, Plain)
	for typ, n := range blocks {
		if differ[typ] != 0 {
			t.Errorf("%s: %d of %d blocks differ", typ, differ[typ], n)
		}
	}
	t.Log(summary(blocks))
}

func summary(blocks map[gguf.Type]int) string {
	var parts []string
	for t, n := range blocks {
		parts = append(parts, fmt.Sprintf("%s %d", t, n))
	}
	return strings.Join(parts, ", ")
}
