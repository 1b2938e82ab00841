package quant

import (
	"math"

	"github.com/weighmaster/weighmaster/kernels/lowfloat"
)

// MXFP4 is 32 E2M1 codes with an E8M0 scale in front; NVFP4, in GGUF's form,
// 64 codes in four groups with four E4M3 scales in front. The tensor-wide scale
// of an NVFP4 checkpoint is a tensor of its own.

// halfE8M0 is half of 2^(e-127). The NaN of the OCP format, 0xFF, is 2^127 here
// as in ggml.
func halfE8M0(e byte) float32 {
	if e < 2 { // subnormal
		return math.Float32frombits(0x00200000 << e)
	}
	return math.Float32frombits(uint32(e-1) << 23)
}

// halfUE4M3 is half of an E4M3 number whose sign bit does not count. Its NaN is
// zero; with the sign bit set it is half of 480. Both are ggml's choices.
func halfUE4M3(b byte) float32 {
	switch b {
	case 0x7F:
		return 0
	case 0xFF:
		return 240
	}
	return lowfloat.E4M3(b&0x7F) * 0.5
}

func dequantizeMXFP4(dst []float32, src []byte) {
	values := new([16]float32)
	for ; len(dst) > 0; dst, src = dst[32:], src[17:] {
		scaleBook(values, halfE8M0(src[0]), &bookFP4)
		placeNibbles(dst, values, src[1:17])
	}
}

func dequantizeNVFP4(dst []float32, src []byte) {
	values := new([16]float32)
	for ; len(dst) > 0; src = src[36:] {
		for i, scale := range src[:4] {
			scaleBook(values, halfUE4M3(scale), &bookFP4)
			placeNibbles(dst, values, src[4+8*i:][:8])
			dst = dst[16:]
		}
	}
}
