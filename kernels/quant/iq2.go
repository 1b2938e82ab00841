package quant

import "encoding/binary"

// The IQ2 types: blocks of 256 weights in groups of eight, each a point of a
// grid with eight signs, and a 4-bit scale for 16 or 32 weights. A weight is
// d · (scale + 1/2) / 4 · (8, 25 or 43), exact in float32 until it underflows.
// Reference: dequantize_row_iq2_xxs, _xs and _s in ggml.

// scaleIQ2 fills values with the weights of the codes 0 to 2, and their negatives.
func scaleIQ2(values *[16]float32, d float32, scale byte) {
	d = float32(float32(d*(0.5+float32(scale))) * 0.25)
	values[0], values[1], values[2] = float32(d*8), float32(d*25), float32(d*43)
	values[minus], values[minus+1], values[minus+2] = -values[0], -values[1], -values[2]
}

func dequantizeIQ2_XXS(dst []float32, src []byte) {
	points, values := gridIQ2XXS(), new([16]float32)
	for ; len(dst) > 0; src = src[66:] {
		d := half(src)
		for part := src[2:66]; len(part) > 0; part, dst = part[8:], dst[32:] {
			signs, weights := binary.LittleEndian.Uint32(part[4:]), (*[32]float32)(dst)
			scaleIQ2(values, d, byte(signs>>28))
			place((*[8]float32)(weights[0:]), values, points[part[0]]|signMasks[evenSigns(signs)])
			place((*[8]float32)(weights[8:]), values, points[part[1]]|signMasks[evenSigns(signs>>7)])
			place((*[8]float32)(weights[16:]), values, points[part[2]]|signMasks[evenSigns(signs>>14)])
			place((*[8]float32)(weights[24:]), values, points[part[3]]|signMasks[evenSigns(signs>>21)])
		}
	}
}

func dequantizeIQ2_XS(dst []float32, src []byte) {
	points, values := gridIQ2XS(), new([16]float32)
	for ; len(dst) > 0; src = src[74:] {
		d, codes := half(src), src[2:66]
		for _, scales := range src[66:74] {
			for _, scale := range [2]byte{scales & 0xF, scales >> 4} {
				scaleIQ2(values, d, scale)
				a, b := binary.LittleEndian.Uint16(codes), binary.LittleEndian.Uint16(codes[2:])
				place((*[8]float32)(dst), values, points[a&511]|signMasks[evenSigns(uint32(a>>9))])
				place((*[8]float32)(dst[8:]), values, points[b&511]|signMasks[evenSigns(uint32(b>>9))])
				dst, codes = dst[16:], codes[4:]
			}
		}
	}
}

func dequantizeIQ2_S(dst []float32, src []byte) {
	points, values := gridIQ2S(), new([16]float32)
	for ; len(dst) > 0; src = src[82:] {
		d, low, signs, high := half(src), src[2:34], src[34:66], src[66:74]
		for i, scales := range src[74:82] {
			h := int(high[i])
			for _, scale := range [2]byte{scales & 0xF, scales >> 4} {
				scaleIQ2(values, d, scale)
				place((*[8]float32)(dst), values, points[int(low[0])|h&3<<8]|signMasks[signs[0]])
				place((*[8]float32)(dst[8:]), values, points[int(low[1])|h>>2&3<<8]|signMasks[signs[1]])
				dst, low, signs, h = dst[16:], low[2:], signs[2:], h>>4
			}
		}
	}
}
