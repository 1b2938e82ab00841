package quant

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// checkCodes runs CheckCodes over every tensor of a real file for which it can.
func checkCodes(t *testing.T, source, target *gguf.File) (blocks, bad map[gguf.Type]int64) {
	t.Helper()
	blocks, bad = map[gguf.Type]int64{}, map[gguf.Type]int64{}
	for _, tensor := range target.Tensors {
		if !CodesFollow(tensor.Type) {
			continue
		}
		n, first := CheckCodes(tensor.Type, body(t, target, tensor), floats(t, source, tensor.Name))
		if (n == 0) != (first == -1) {
			t.Errorf("%s: %d bad blocks, the first at %d", tensor.Name, n, first)
		}
		blocks[tensor.Type] += int64(tensor.Elements() / 256)
		bad[tensor.Type] += n
	}
	return blocks, bad
}

// TestCodesOfHonestFilesFollow checks every block of every file, also of the build
// with fused multiply-add, whose scales differ.
func TestCodesOfHonestFilesFollow(t *testing.T) {
	source := model(t, "llama-grouped", "BF16.gguf")
	total := map[gguf.Type]int64{}
	for i, name := range madeBy(t, "", "more", "fma-build") {
		if i%thin > 1 {
			continue
		}
		blocks, bad := checkCodes(t, source, model(t, "llama-grouped", name))
		for typ, n := range bad {
			total[typ] += blocks[typ]
			if n != 0 {
				t.Errorf("%s: %d of %d blocks of %s do not follow from their scales", name, n, blocks[typ], typ)
			}
		}
	}
	t.Log(total)
}

// TestCodesOfForgedFileDoNotFollow checks a Q4_K_M that was made from the Q8_0.
func TestCodesOfForgedFileDoNotFollow(t *testing.T) {
	blocks, bad := checkCodes(t, model(t, "llama-grouped", "BF16.gguf"), model(t, "llama-grouped", "forged", "Q4_K_M-made-from-Q8_0.gguf"))
	for typ, n := range blocks {
		t.Logf("%s: %d of %d blocks are bad", typ, bad[typ], n)
		if bad[typ] < n*8/10 {
			t.Errorf("%s: %d of %d blocks are bad, want most", typ, bad[typ], n)
		}
	}
}

// edited gives a copy of weights after an edit of each block of 256.
func edited(weights []float32, edit func(block []float32, i int)) []float32 {
	copied := slices.Clone(weights)
	for i := 0; i < len(copied); i += 256 {
		edit(copied[i:i+256], i/256)
	}
	return copied
}

// TestEditedWeightsAreNoticed makes honest blocks from edited weights, as who
// edits a model and quantizes it would, and checks them against the weights that are claimed.
func TestEditedWeightsAreNoticed(t *testing.T) {
	if thin > 1 {
		t.Skip("too slow under the race detector; the run without it has this test")
	}
	weights, _ := benchWeights()
	weights = weights[:256*1024]
	r := rand.New(rand.NewPCG(15, 16))
	var norm, step float64
	for _, v := range weights {
		norm += float64(v) * float64(v)
	}
	step = 0.01 * math.Sqrt(norm/float64(len(weights)))
	ulp := func(f float32) float32 { return math.Float32frombits(math.Float32bits(f) + 1<<16) }
	for _, typ := range searchedTypes() {
		if !CodesFollow(typ) {
			continue
		}
		for _, c := range []struct {
			name  string
			edit  func(block []float32, i int)
			least float64 // share of bad blocks
			most  float64
		}{
			{"nothing", func([]float32, int) {}, 0, 0},
			{"one bf16 step in one weight of 256", func(block []float32, _ int) {
				i := r.IntN(256)
				block[i] = ulp(block[i])
			}, 0.0005, 0.3},
			{"a change of rank one, one per cent of the weights' size", func(block []float32, i int) {
				row := r.NormFloat64()
				for j := range block {
					block[j] = BF16ToFloat(FloatToBF16(block[j] + float32(step*row*math.Cos(float64(j+i%16*256)))))
				}
			}, 0.3, 1},
			{"through Q8_0", func(block []float32, _ int) {
				var stored [272]byte
				quantizeQ8_0(stored[:], block)
				dequantizeQ8_0(block, stored[:])
			}, 0.3, 1},
		} {
			q, err := NewQuantizer(typ, Plain)
			if err != nil {
				t.Fatal(err)
			}
			stored := make([]byte, codecs[typ].Size(int64(len(weights))))
			q.Rows(stored, edited(weights, c.edit), benchWidth, nil)
			bad, _ := CheckCodes(typ, stored, weights)
			share := float64(bad) / float64(len(weights)/256)
			t.Logf("%s, %s: %.2f %% of the blocks are bad", typ, c.name, 100*share)
			if share < c.least || share > c.most {
				t.Errorf("%s, %s: a share of %g of the blocks is bad, want %g to %g", typ, c.name, share, c.least, c.most)
			}
		}
	}
}

// TestEditedBlocksAreNoticed changes single things in stored blocks: a code, a scale,
// a whole block. first names the block.
func TestEditedBlocksAreNoticed(t *testing.T) {
	weights, _ := benchWeights()
	weights = weights[:256*64]
	scaleAt := map[gguf.Type]int{gguf.Q2_K: 3, gguf.Q3_K: 105, gguf.Q4_K: 5, gguf.Q5_K: 5, gguf.Q6_K: 195}
	codeAt := map[gguf.Type]int{gguf.Q2_K: 20, gguf.Q3_K: 40, gguf.Q4_K: 20, gguf.Q5_K: 60, gguf.Q6_K: 20}
	for typ := range codesOf {
		q, err := NewQuantizer(typ, Plain)
		if err != nil {
			t.Fatal(err)
		}
		size := codecs[typ].Bytes
		honest := make([]byte, codecs[typ].Size(int64(len(weights))))
		q.Rows(honest, weights, 256, nil)
		for name, edit := range map[string]func(block, next []byte){
			"one code":      func(block, _ []byte) { block[codeAt[typ]] ^= 1 },
			"one scale":     func(block, _ []byte) { block[scaleAt[typ]] ^= 7 },
			"another block": func(block, next []byte) { copy(block, next) },
		} {
			forged := slices.Clone(honest)
			edit(forged[17*size:18*size], forged[18*size:19*size])
			if bad, first := CheckCodes(typ, forged, weights); bad != 1 || first != 17 {
				t.Errorf("%s, %s: %d bad blocks, the first %d; want 1, 17", typ, name, bad, first)
			}
		}
	}
}
