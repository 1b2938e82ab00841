package mlx

import (
	"context"
	"testing"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/folder"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// TestEveryBitOfAMatrixIsHeldAgainstItsSource: no code, scale or bias is left out, at the start, in the middle and
// at the end. A few flips give what another backend rounds at a tie: those are never called recomputed.
func TestEveryBitOfAMatrixIsHeldAgainstItsSource(t *testing.T) {
	source, product := example()
	m, err := Open(product)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var matrix Tensor
	for _, one := range m.Tensors {
		if one.Scheme != nil {
			matrix = one
		}
	}
	only := map[string]bool{matrix.Name: true}
	for _, part := range []safetensors.SnapshotTensor{matrix.Packed, matrix.Scales, matrix.Biases} {
		size, flips, ties := part.End-part.Begin, 0, 0
		for at := range size {
			if at >= 40 && at < size-40 && (at < size/2 || at >= size/2+40) {
				continue
			}
			for bit := range 8 {
				v, err := folder.Flip(product, m.Snapshot, part, at, uint(bit))
				if err != nil {
					t.Fatal(err)
				}
				r, found, err := compareFolders(context.Background(), source, v, only)
				if err != nil {
					t.Fatal(err)
				}
				flips++
				switch one, _ := r.Tensor(matrix.Name); {
				case one.Outcome == UpToTies:
					ties++
				case len(found) == 0 && r.Verdict == kernels.Passed:
					t.Errorf("%s: bit %d of byte %d may be any: %s", part.Name, bit, at, one.Outcome)
				}
			}
		}
		if ties*20 > flips {
			t.Errorf("%s: %d of %d flips are taken for ties, want at most 5 percent", part.Name, ties, flips)
		}
	}
}
