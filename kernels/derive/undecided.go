package derive

import (
	"fmt"

	"github.com/weighmaster/weighmaster/kernels"
)

// The checks whose findings say that something could not be told, not that it is wrong.
const (
	CheckUnmade    = "not recomputed" // a tensor of a type, or with blocks, that is not recomputed
	checkFree      = "scales free"    // a tensor whose importance matrix is not at hand
	checkTokenizer = "tokenizer"      // keys that could not be derived
	checkScales    = "scales beside"  // scales of activations or of the KV cache: no weight says what they should be
)

// undecidedOnly tells that no finding says that something is wrong.
func undecidedOnly(findings []kernels.Finding) bool {
	for _, f := range findings {
		switch f.Check {
		case CheckUnmade, checkFree, checkTokenizer:
		default:
			return false
		}
	}
	return true
}

// free gives the findings of a check about what is left free: scales where the
// matrix is not at hand, or does not fit, and claims about it that the bytes refute.
func (inv *inventory) free(u *MatrixUse, o Options) (list []kernels.Finding) {
	for _, name := range sortedNames(inv.results) {
		r := inv.results[name]
		switch {
		case r.class != ClassC:
		case o.Matrix != nil && r.pair.importance != nil:
			list = append(list, kernels.Finding{Check: "matrix", Where: "tensor " + name, Got: fmt.Sprintf("%d of %d blocks with other scales", r.differing, r.pair.blocks()), Want: "those that the matrix at hand gives", Hint: "the product was made with another matrix"})
		default:
			list = append(list, kernels.Finding{Check: checkFree, Where: "tensor " + name, Got: fmt.Sprintf("%d of %d blocks with other scales than a search without a matrix gives", r.differing, r.pair.blocks()), Want: "the importance matrix at hand", Hint: "all codes are exact; give the matrix as an input"})
		}
	}
	if u == nil {
		return list
	}
	for _, f := range u.Findings {
		if f.Check == checkClaim {
			list = append(list, f)
		}
	}
	return list
}
