package quant

import "encoding/binary"

// The IQ3 types: blocks of 256 weights in groups of eight, each two points of a
// grid of four elements with eight signs, and a 4-bit scale for 32 weights.
// Reference: dequantize_row_iq3_xxs and dequantize_row_iq3_s in ggml.

var (
	valuesIQ3XXS = [8]float32{4, 12, 20, 28, 36, 44, 52, 62}
	valuesIQ3S   = [8]float32{1, 3, 5, 7, 9, 11, 13, 15}
)

// scaleIQ3 fills values with d times each number of a grid, and their negatives.
func scaleIQ3(values *[16]float32, d float32, numbers *[8]float32) {
	for i, v := range numbers {
		v = float32(d * v)
		values[i], values[minus+i] = v, -v
	}
}

func dequantizeIQ3_XXS(dst []float32, src []byte) {
	points, values := gridIQ3XXS(), new([16]float32)
	for ; len(dst) > 0; src = src[98:] {
		d, codes := half(src), src[2:66]
		for rest := src[66:98]; len(rest) > 0; rest = rest[4:] {
			signs := binary.LittleEndian.Uint32(rest)
			scaleIQ3(values, float32(float32(d*(0.5+float32(signs>>28)))*0.5), &valuesIQ3XXS)
			for range 4 {
				place((*[8]float32)(dst), values, points[codes[0]]|points[codes[1]]<<32|signMasks[evenSigns(signs)])
				dst, codes, signs = dst[8:], codes[2:], signs>>7
			}
		}
	}
}

func dequantizeIQ3_S(dst []float32, src []byte) {
	points, values := gridIQ3S(), new([16]float32)
	for ; len(dst) > 0; src = src[110:] {
		d, low, signs, scales := half(src), src[2:66], src[74:106], src[106:110]
		for i, h := range src[66:74] {
			scale, high := scales[i/2]>>(i%2*4)&0xF, int(h)
			scaleIQ3(values, float32(d*float32(1+2*int(scale))), &valuesIQ3S)
			for range 4 {
				a, b := points[int(low[0])|high&1<<8], points[int(low[1])|high>>1&1<<8]
				place((*[8]float32)(dst), values, a|b<<32|signMasks[signs[0]])
				dst, low, signs, high = dst[8:], low[2:], signs[1:], high>>2
			}
		}
	}
}
