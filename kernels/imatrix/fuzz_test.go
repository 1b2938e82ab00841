package imatrix

import (
	"bytes"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/hostile"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// FuzzOpen: whatever the bytes are, a matrix that opens is whole: each entry's
// numbers lie in the file, and judging and reading them neither panics nor
// holds more numbers than the file has.
func FuzzOpen(f *testing.F) {
	whole, tensors := sample()
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(oldForm(f))
	f.Add(patched(oldForm(f), 0, 1<<20))
	f.Add(patched(oldForm(f), 31, 1<<29))
	f.Add(readFile(f, mixtralDat))
	f.Add(readFile(f, mixtralGGUF))
	for _, x := range append(hostile.ImatrixDat(), hostile.ImatrixGGUF()...) {
		f.Add(x.Data)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		total := int64(0)
		for _, e := range m.Entries {
			if e.Offset < 0 || e.Values() < 1 || e.Offset+4*e.Values() > int64(len(b)) || int64(len(e.Counts)) != e.Experts {
				t.Fatalf("%s: %d numbers at byte %d of %d, %d counts for %d experts", e.Name, e.Values(), e.Offset, len(b), len(e.Counts), e.Experts)
			}
			total += e.Values()
			if w, ok, err := m.Weights(e.Name); err == nil && (!ok || int64(len(w)) != e.Values()) {
				t.Fatalf("%s: got %d weights, %v; want %d", e.Name, len(w), ok, e.Values())
			}
		}
		if 4*total > int64(len(b)) {
			t.Fatalf("%d numbers in %d bytes", total, len(b))
		}
		m.Validate(tensors)
		m.Validate([]gguf.TensorInfo{})
	})
}
