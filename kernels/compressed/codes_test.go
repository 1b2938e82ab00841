package compressed

import (
	"context"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/folder"
)

// TestEveryCodeIsHeldAgainstItsWeight: no bit of a code is left out, of either format, at the start, in the middle and at the end.
func TestEveryCodeIsHeldAgainstItsWeight(t *testing.T) {
	for _, name := range []string{"modelopt-nvfp4", "ct-nvfp4", "ct-fp8", "ct-fp8-channel", "ct-fp8-block"} {
		product, source := dir(name), dir("source")
		m := open(t, product)
		matrix := m.Matrices[len(m.Matrices)-1]
		only := map[string]bool{matrix.Weight(): true}
		size := matrix.Codes.End - matrix.Codes.Begin
		for at := range size {
			if at >= 12 && at < size-12 && (at < size/2 || at >= size/2+12) {
				continue
			}
			for bit := range 8 {
				v, err := folder.Flip(product, m.Snapshot, matrix.Codes, at, uint(bit))
				if err != nil {
					t.Fatal(err)
				}
				r, found, err := compareFolders(context.Background(), source, v, only)
				if err != nil {
					t.Fatal(err)
				}
				if one, _ := r.Tensor(matrix.Weight()); len(found) == 0 && one.Follows() {
					t.Errorf("%s: bit %d of byte %d of the codes may be any", name, bit, at)
				}
			}
		}
	}
}
