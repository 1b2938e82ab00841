package quant

import (
	"slices"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// TestEveryCodeIsHeldAgainstItsWeight: no weight of a block and no bit of its codes is left out of the check.
func TestEveryCodeIsHeldAgainstItsWeight(t *testing.T) {
	weights, _ := benchWeights()
	weights = slices.Clone(weights[:3*256])
	beyond := 4 * max(slices.Max(weights), -slices.Min(weights))
	const second = 256 // the block that is edited stands between two others
	for typ, codes := range map[gguf.Type][2]int{gguf.Q2_K: {16, 80}, gguf.Q3_K: {0, 96}, gguf.Q4_K: {16, 144}, gguf.Q5_K: {16, 176}, gguf.Q6_K: {0, 192}} {
		if !CodesFollow(typ) || len(codesOf) != 5 {
			t.Fatalf("%s: the types whose codes follow are others than here", typ)
		}
		q, err := NewQuantizer(typ, Plain)
		if err != nil {
			t.Fatal(err)
		}
		size := codecs[typ].Bytes
		honest := make([]byte, codecs[typ].Size(int64(len(weights))))
		q.Rows(honest, weights, 256, nil)
		noticed := func(stored []byte, src []float32) bool {
			bad, first := CheckCodes(typ, stored, src)
			return bad == 1 && first == 1
		}
		for i := range 256 {
			w := weights[second+i]
			weights[second+i] = beyond
			far := noticed(honest, weights)
			weights[second+i] = -beyond
			far = far || noticed(honest, weights) // one of both is not the code's own end of the range
			weights[second+i] = w
			if !far {
				t.Errorf("%s: weight %d of a block may be any", typ, i)
			}
		}
		for at := size + codes[0]; at < size+codes[1]; at++ {
			for bit := range 8 {
				honest[at] ^= 1 << bit
				if !noticed(honest, weights) {
					t.Errorf("%s: bit %d of byte %d of a block may be any", typ, bit, at-size)
				}
				honest[at] ^= 1 << bit
			}
		}
	}
}
