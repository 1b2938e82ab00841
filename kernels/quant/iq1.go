package quant

import "encoding/binary"

// The IQ1 types: blocks of 256 weights in groups of eight, each a point of a
// grid of -1, 0 and 1 that is shifted by 1/8 up or down, and a 3-bit scale for 32
// weights (IQ1_S) or 16 (IQ1_M). Reference: dequantize_row_iq1_s and
// dequantize_row_iq1_m in ggml.

// down marks all eight codes of a group that is shifted down.
const down = minus * 0x0101010101010101

// scaleIQ1 fills values with the weights of the codes 0 to 2, shifted up and down.
func scaleIQ1(values *[16]float32, d float32, scale int) {
	d = float32(d * float32(2*scale+1))
	values[0], values[1], values[2] = float32(d*-0.875), float32(d*0.125), float32(d*1.125)
	values[minus], values[minus+1], values[minus+2] = float32(d*-1.125), float32(d*-0.125), float32(d*0.875)
}

func dequantizeIQ1_S(dst []float32, src []byte) {
	points, values := gridIQ1S(), new([16]float32)
	for ; len(dst) > 0; src = src[50:] {
		d, low := half(src), src[2:34]
		for rest := src[34:50]; len(rest) > 0; rest = rest[2:] {
			high := int(binary.LittleEndian.Uint16(rest))
			scaleIQ1(values, d, high>>12&7)
			shift := uint64(high>>15) * down
			for range 4 {
				place((*[8]float32)(dst), values, points[int(low[0])|high&7<<8]|shift)
				dst, low, high = dst[8:], low[1:], high>>3
			}
		}
	}
}

func dequantizeIQ1_M(dst []float32, src []byte) {
	points, values := gridIQ1S(), new([16]float32)
	for ; len(dst) > 0; src = src[56:] {
		low, high := src[:32], src[32:48]
		// Four words: three times four scales of 3 bits, and a quarter of d on top of each.
		scales := binary.LittleEndian.Uint64(src[48:])
		d := HalfToFloat(uint16(scales>>12&0xF | scales>>24&0xF0 | scales>>36&0xF00 | scales>>48&0xF000))
		for i, h := range high { // sixteen weights each
			scaleIQ1(values, d, int(scales>>(i/4*16+i%4*3)&7))
			a, b := int(h&7)<<8, int(h>>4&7)<<8
			place((*[8]float32)(dst), values, points[int(low[2*i])|a]|uint64(h>>3&1)*down)
			place((*[8]float32)(dst[8:]), values, points[int(low[2*i+1])|b]|uint64(h>>7)*down)
			dst = dst[16:]
		}
	}
}
