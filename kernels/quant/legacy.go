package quant

import "encoding/binary"

// The older block types: 32 weights with a scale d, and in Q4_1 and Q5_1 a
// minimum m, each binary16. The first sixteen codes stand in the low halves of the
// bytes, the others in the high halves; Q5 has a word of fifth bits. Reference:
// dequantize_row_q4_0 and its sisters in ggml.

func half(p []byte) float32 { return HalfToFloat(binary.LittleEndian.Uint16(p)) }

// bookQ4 is the codebook of Q4_0.
var bookQ4 = [16]float32{-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7}

func dequantizeQ4_0(dst []float32, src []byte) {
	values := new([16]float32)
	for ; len(dst) > 0; dst, src = dst[32:], src[18:] {
		scaleBook(values, half(src), &bookQ4)
		placeNibbles(dst, values, src[2:18])
	}
}

func dequantizeQ4_1(dst []float32, src []byte) {
	values := new([16]float32)
	for ; len(dst) > 0; dst, src = dst[32:], src[20:] {
		d, m := half(src), half(src[2:])
		for code := range values {
			values[code] = float32(float32(code)*d) + m
		}
		placeNibbles(dst, values, src[4:20])
	}
}

// spreadFifths spreads the fifth bits of sixteen codes of a Q5 block and of the
// sixteen after them: bit 4 of each byte belongs to the first, bit 5 to the second.
func spreadFifths(p []byte) (high [16]byte) {
	word := binary.LittleEndian.Uint32(p)
	for j := range high {
		high[j] = byte(word<<4&0x10 | word>>11&0x20)
		word >>= 1
	}
	return high
}

func dequantizeQ5_0(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[22:] {
		d, high, weights := half(src), spreadFifths(src[2:]), (*[32]float32)(dst)
		for j, q := range (*[16]byte)(src[6:]) {
			weights[j] = float32(float32(int32(q&0xF|high[j]&0x10)-16) * d)
			weights[j+16] = float32(float32(int32(q>>4|high[j]>>1&0x10)-16) * d)
		}
	}
}

func dequantizeQ5_1(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[24:] {
		d, m, high, weights := half(src), half(src[2:]), spreadFifths(src[4:]), (*[32]float32)(dst)
		for j, q := range (*[16]byte)(src[8:]) {
			weights[j] = float32(float32(int32(q&0xF|high[j]&0x10))*d) + m
			weights[j+16] = float32(float32(int32(q>>4|high[j]>>1&0x10))*d) + m
		}
	}
}
