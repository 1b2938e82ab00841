package quant

import (
	"encoding/binary"
	"math"
	"testing"
)

// spread makes n numbers from bytes, four each, from the front again where they end.
func spread(data []byte, n int) []float32 {
	x := make([]float32, n)
	var word [4]byte
	for i := range x {
		for k := range word {
			word[k] = data[(4*i+k)%len(data)]
		}
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(word[:]))
	}
	return x
}

// finite says whether every number is one.
func finite(x []float32) bool {
	for _, v := range x {
		if math.Float32bits(v)&0x7F800000 == 0x7F800000 {
			return false
		}
	}
	return true
}

// FuzzQuantize quantizes any bits, with and without a matrix of any bits, as one of the builds: no
// type panics, what comes out can be read back and its codes follow from its scales, and for numbers the
// searches agree with the reference.
func FuzzQuantize(f *testing.F) {
	words := func(bits ...uint32) (p []byte) {
		for _, b := range bits {
			p = binary.LittleEndian.AppendUint32(p, b)
		}
		return p
	}
	one := words(0x3F800000)
	for _, source := range [][]byte{
		words(0), one, words(0x0DA24260, 0x8DA24260), words(0x006CE3EE, 0x806CE3EE), words(1, 0x80000001), // 0, 1, ±1e-30, ±1e-38, the smallest
		words(0x7F800000, 0), words(0xFF800000, 0x7F800000), words(0x7FC00000, 0x3F800000), words(0x7F800001), words(0x7F7FFFFF, 0xFF7FFFFF),
		words(0x3F800000, 0xBF800000, 0x3DCCCCCD, 0x40490FDB, 0xC0200000, 0x3E99999A, 0xBC23D70A),
	} {
		f.Add(source, one)
		f.Add(source, source)
	}
	f.Fuzz(func(t *testing.T, source, matrix []byte) {
		if len(source) == 0 || len(matrix) == 0 {
			return
		}
		const width = 256
		x, w := spread(source, 2*width), spread(matrix, width)
		v := allVariants[(len(source)+len(matrix))%len(allVariants)]
		back := make([]float32, len(x))
		for typ := range searches {
			q, err := NewQuantizer(typ, v)
			if err != nil {
				t.Fatal(err)
			}
			stored := make([]byte, codecs[typ].Size(int64(len(x))))
			for _, importance := range [][]float32{nil, w} {
				q.Rows(stored, x, width, importance)
				codecs[typ].Dequantize(back, stored)
				if !CodesFollow(typ) {
					continue
				}
				if bad, first := CheckCodes(typ, stored, x); bad != 0 || first != -1 {
					t.Errorf("%s, %s: %d blocks do not follow from their scales, the first %d", typ, v, bad, first)
				}
			}
		}
		if finite(x[:32]) && finite(w[:32]) {
			agree(t, x[:16], w[:16])
			agree(t, x[:32], w[:32])
		}
	})
}

// FuzzCheckCodes checks hostile blocks: nothing panics, and once the codes are
// those of the check, it finds nothing.
func FuzzCheckCodes(f *testing.F) {
	f.Add([]byte{0}, []byte{0, 0, 0x80, 0x3F})
	f.Add([]byte{0xFF, 0x7C, 0x00, 0xFE}, []byte{0, 0, 0xC0, 0x7F})
	f.Fuzz(func(t *testing.T, block, source []byte) {
		if len(block) == 0 || len(source) == 0 {
			return
		}
		x := spread(source, 512)
		for typ, recode := range codesOf {
			size := codecs[typ].Bytes
			stored := make([]byte, 2*size)
			for i := range stored {
				stored[i] = block[i%len(block)]
			}
			bad, first := CheckCodes(typ, stored, x)
			if bad < 0 || bad > 2 || (bad == 0) != (first == -1) || first > 1 {
				t.Errorf("%s: %d of 2 blocks, the first %d", typ, bad, first)
			}
			recode(stored[:size], (*[256]float32)(x))
			recode(stored[size:], (*[256]float32)(x[256:]))
			if bad, _ := CheckCodes(typ, stored, x); bad != 0 {
				t.Errorf("%s: %d blocks differ from their own recomputation", typ, bad)
			}
		}
	})
}
