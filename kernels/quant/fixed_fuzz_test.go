package quant

import (
	"bytes"
	"testing"
)

// FuzzFixedRules quantizes arbitrary float32 bits with every rule: no panic, blocks do
// not influence one another, and the codes of the FP4 types are the nearest ones by
// the definition.
func FuzzFixedRules(f *testing.F) {
	weights := hostileWeights()
	for i := 0; i < len(weights); i += 64 * 256 {
		seed := make([]byte, 4*256)
		quantizeF32(seed, weights[i:i+256])
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		src := make([]float32, min(len(data)/1024, 8)*256)
		dequantizeF32(src, data[:4*len(src)])
		for _, typ := range fixedTypes {
			c := codecs[typ]
			all, one := make([]byte, c.Size(int64(len(src)))), make([]byte, c.Bytes)
			c.Quantize(all, src)
			back := make([]float32, len(src))
			c.Dequantize(back, all)
			for i := range len(src) / c.Weights {
				c.Quantize(one, src[i*c.Weights:(i+1)*c.Weights])
				if !bytes.Equal(one, all[i*c.Bytes:(i+1)*c.Bytes]) {
					t.Fatalf("%s: block %d alone becomes other bytes than among its neighbours", typ, i)
				}
			}
		}
		for i := 0; i+32 <= len(src); i += 32 {
			block, codes := src[i:i+32], make([]byte, 16)
			for _, d := range []float32{halfE8M0(data[i]), halfUE4M3(data[i])} {
				codesFP4(codes, block, d)
				for j, q := range codes {
					if a, b := nearestFP4(block[j], d), nearestFP4(block[j+16], d); q != a|b<<4 {
						t.Fatalf("scale %v: %v and %v got codes %#x, the definition gives %#x", d, block[j], block[j+16], q, a|b<<4)
					}
				}
			}
		}
	})
}
