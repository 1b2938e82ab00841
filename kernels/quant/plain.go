package quant

import (
	"encoding/binary"
	"math"
)

// Types that ggml keeps for intermediate results, whole numbers and float64. Its
// library reads Q8_K back (dequantize_row_q8_K) and no other of these; their values are
// by definition. Integers of 32 and 64 bits and float64 are rounded to the
// nearest float32, ties to even; a float64 beyond its range becomes an infinity.

// dequantizeQ8_1 ignores the sum of the codes, which stands behind d.
func dequantizeQ8_1(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[36:] {
		block, weights := (*[36]byte)(src), (*[32]float32)(dst)
		d := half(block[:])
		for i := range weights {
			weights[i] = float32(float32(int8(block[4+i])) * d)
		}
	}
}

// dequantizeQ8_K reads a float32 d and 256 codes, and ignores the sums of codes behind them.
func dequantizeQ8_K(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[256:], src[292:] {
		block, weights := (*[292]byte)(src), (*[256]float32)(dst)
		d := math.Float32frombits(binary.LittleEndian.Uint32(block[:]))
		for i := range weights {
			weights[i] = float32(d * float32(int8(block[4+i])))
		}
	}
}

func dequantizeI8(dst []float32, src []byte) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] = float32(int8(src[i]))
	}
}

func dequantizeI16(dst []float32, src []byte) {
	src = src[:2*len(dst)]
	for i := range dst {
		dst[i] = float32(int16(binary.LittleEndian.Uint16(src[2*i:])))
	}
}

func dequantizeI32(dst []float32, src []byte) {
	src = src[:4*len(dst)]
	for i := range dst {
		dst[i] = float32(int32(binary.LittleEndian.Uint32(src[4*i:])))
	}
}

func dequantizeI64(dst []float32, src []byte) {
	src = src[:8*len(dst)]
	for i := range dst {
		dst[i] = float32(int64(binary.LittleEndian.Uint64(src[8*i:])))
	}
}

func dequantizeF64(dst []float32, src []byte) {
	src = src[:8*len(dst)]
	for i := range dst {
		dst[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:])))
	}
}
