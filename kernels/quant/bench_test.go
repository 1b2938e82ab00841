package quant

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// benchWidth and benchRows make a matrix of a quarter of a million weights.
const benchWidth, benchRows = 4096, 64

func benchWeights() (weights, importance []float32) {
	r := rand.New(rand.NewPCG(7, 8))
	weights, importance = make([]float32, benchWidth*benchRows), make([]float32, benchWidth)
	for i := range weights {
		weights[i] = BF16ToFloat(FloatToBF16(float32(r.NormFloat64() * 0.02)))
	}
	for i := range importance {
		importance[i] = float32(r.ExpFloat64())
	}
	return weights, importance
}

// searchedTypes are the types with a search, in the order of their numbers.
func searchedTypes() (types []gguf.Type) {
	for t := gguf.Type(0); t < 64; t++ {
		if searches[t] != nil {
			types = append(types, t)
		}
	}
	return types
}

// BenchmarkQuantize counts bytes of a BF16 source.
func BenchmarkQuantize(b *testing.B) {
	weights, importance := benchWeights()
	for _, t := range append([]gguf.Type{gguf.Q8_0}, searchedTypes()...) {
		for _, v := range []Variant{Plain, GCCFMA} {
			for _, column := range [][]float32{nil, importance} {
				name := fmt.Sprintf("%s/%s/matrix=%t", t, v, column != nil)
				if t == gguf.Q8_0 && (v != Plain || column != nil) {
					continue
				}
				b.Run(name, func(b *testing.B) {
					q, err := NewQuantizer(t, v)
					if err != nil {
						b.Fatal(err)
					}
					dst := make([]byte, codecs[t].Size(int64(len(weights))))
					b.SetBytes(int64(2 * len(weights)))
					for b.Loop() {
						q.Rows(dst, weights, benchWidth, column)
					}
				})
			}
		}
	}
}

// BenchmarkCheckCodes counts bytes of a BF16 source.
func BenchmarkCheckCodes(b *testing.B) {
	weights, _ := benchWeights()
	for _, t := range searchedTypes() {
		if !CodesFollow(t) {
			continue
		}
		b.Run(t.String(), func(b *testing.B) {
			q, err := NewQuantizer(t, Plain)
			if err != nil {
				b.Fatal(err)
			}
			stored := make([]byte, codecs[t].Size(int64(len(weights))))
			q.Rows(stored, weights, benchWidth, nil)
			b.SetBytes(int64(2 * len(weights)))
			for b.Loop() {
				if bad, _ := CheckCodes(t, stored, weights); bad != 0 {
					b.Fatal(bad)
				}
			}
		})
	}
}
