package compressed

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/number"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// TestDequantizeIsTheTools compares with what compressed-tensors (BF16) and
// ModelOpt (F32) themselves give, bit by bit.
func TestDequantizeIsTheTools(t *testing.T) {
	f, err := os.Open(filepath.Join(fixtures, "dequantized.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	want, err := safetensors.Open(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, tensor := range want.Tensors {
		name, matrix, _ := strings.Cut(tensor.Name, "/")
		m := open(t, dir(name))
		i := slices.IndexFunc(m.Matrices, func(one Matrix) bool { return one.Name == matrix })
		got := make([]float32, m.Matrices[i].Rows*m.Matrices[i].Columns)
		if err := m.Dequantize(m.Matrices[i], got, 0); err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(want.Section(tensor))
		if err != nil {
			t.Fatal(err)
		}
		own, _ := number.Of(tensor.DType)
		theirs := make([]float32, len(got))
		own.Decode(theirs, raw)
		for k := range got {
			if mine := own.Round(got[k]); mine != theirs[k] {
				t.Fatalf("%s: weight %d: got %v, want %v", tensor.Name, k, mine, theirs[k])
			}
		}
		compared++
		part := make([]float32, 300)
		if err := m.Dequantize(m.Matrices[i], part, 1500); err != nil || !slices.Equal(part, got[1500:1800]) {
			t.Errorf("%s: a part in the middle is not that of the whole: %v", tensor.Name, err)
		}
		if err := m.Dequantize(m.Matrices[i], part, uint64(len(got)-299)); err == nil || !strings.Contains(err.Error(), "beyond") {
			t.Errorf("%s: got %v, want a range beyond the end refused", tensor.Name, err)
		}
	}
	if compared != 10 {
		t.Errorf("got %d matrices, want 10", compared)
	}
}
