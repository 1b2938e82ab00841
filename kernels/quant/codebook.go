package quant

import "encoding/binary"

// Types whose 4-bit codes index a codebook of 16 numbers: a weight is the scale
// times the number. Reference: dequantize_row_iq4_nl, _iq4_xs, _mxfp4 and _nvfp4
// and the scale conversions of ggml-impl.h in ggml.

// bookIQ4 is the codebook of IQ4_NL and IQ4_XS.
var bookIQ4 = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// bookFP4 is twice the value of each E2M1 code; ggml's scales are half of the
// stored ones. The negative zero, code 8, counts as zero.
var bookFP4 = [16]float32{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// scaleBook fills values with d times each number of a codebook.
func scaleBook(values *[16]float32, d float32, book *[16]float32) {
	for i, v := range book {
		values[i] = float32(d * v)
	}
}

// placeNibbles looks 2·len(codes) codes up: the low halves of the bytes, then the high ones.
func placeNibbles(dst []float32, values *[16]float32, codes []byte) {
	low, high := dst[:len(codes)], dst[len(codes):][:len(codes)]
	for i, q := range codes {
		low[i], high[i] = values[q&15], values[q>>4]
	}
}

func dequantizeIQ4_NL(dst []float32, src []byte) {
	values := new([16]float32)
	for ; len(dst) > 0; dst, src = dst[32:], src[18:] {
		scaleBook(values, half(src), &bookIQ4)
		placeNibbles(dst, values, src[2:18])
	}
}

// scalesIQ4 unpacks eight scales of an IQ4_XS block, which are 6-bit numbers less 32.
func scalesIQ4(high uint16, low []byte) (scales [8]int) {
	for i := range scales {
		scales[i] = int(low[i/2]>>(i%2*4)&0xF) | int(high>>(2*i)&3)<<4 - 32
	}
	return scales
}

func dequantizeIQ4_XS(dst []float32, src []byte) {
	values := new([16]float32)
	for ; len(dst) > 0; src = src[136:] {
		d, codes := half(src), src[8:136]
		for _, scale := range scalesIQ4(binary.LittleEndian.Uint16(src[2:]), src[4:8]) {
			scaleBook(values, float32(d*float32(scale)), &bookIQ4)
			placeNibbles(dst, values, codes[:16])
			dst, codes = dst[32:], codes[16:]
		}
	}
}
