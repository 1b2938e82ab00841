package recipe

import (
	"bytes"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// FuzzRecognize: whatever a header says, a recipe is named for it or refused,
// what is called exact is exact, and every difference is one.
func FuzzRecognize(f *testing.F) {
	for _, s := range shapes {
		if s.layers < 4 { // small, so that mutations are many
			f.Add(s.bytes(f))
		}
	}
	f.Add([]byte("GGUF"))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := gguf.Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		m, err := ModelOf(file)
		if err != nil {
			return
		}
		best, _ := Recognize(m, nil, nil, false)
		if best.Recipe == "" {
			return // every recipe is refused for these shapes
		}
		r, ok := Find(best.Recipe)
		if !ok {
			t.Fatalf("no recipe %s", best.Recipe)
		}
		types, err := r.Types(m, best.Options)
		if err != nil {
			t.Fatalf("%s: %v", best, err)
		}
		different := 0
		for _, tensor := range m.Tensors {
			if types[tensor.Name] != tensor.Type {
				different++
			}
		}
		if different != len(best.Differences) || best.Exact != (different == 0) {
			t.Fatalf("%s: %d differences, really %d", best, len(best.Differences), different)
		}
	})
}
