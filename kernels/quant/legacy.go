package quant

import "encoding/binary"

// The older block types: 32 weights with a scale d, and in Q4_1 and Q5_1 a
// minimum m, each binary16. The first sixteen codes stand in the low halves of the
// bytes, the others in the high halves; Q5 has a word of fifth bits. Reference:
// dequantize_row_q4_0 and its sisters in ggml.

func half(p []byte) float32 { return HalfToFloat(binary.LittleEndian.Uint16(p)) }

func dequantizeQ4_0(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[18:] {
		d := half(src)
		for j, q := range src[2:18] {
			dst[j] = float32(float32(int(q&0xF)-8) * d)
			dst[j+16] = float32(float32(int(q>>4)-8) * d)
		}
	}
}

func dequantizeQ4_1(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[20:] {
		d, m := half(src), half(src[2:])
		for j, q := range src[4:20] {
			dst[j] = float32(float32(q&0xF)*d) + m
			dst[j+16] = float32(float32(q>>4)*d) + m
		}
	}
}

// fifth gives the two codes of byte j of a Q5 block.
func fifth(q byte, high uint32, j int) (low, up int) {
	return int(q&0xF) | int(high>>j&1)<<4, int(q>>4) | int(high>>(j+16)&1)<<4
}

func dequantizeQ5_0(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[22:] {
		d, high := half(src), binary.LittleEndian.Uint32(src[2:])
		for j, q := range src[6:22] {
			low, up := fifth(q, high, j)
			dst[j] = float32(float32(low-16) * d)
			dst[j+16] = float32(float32(up-16) * d)
		}
	}
}

func dequantizeQ5_1(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[24:] {
		d, m, high := half(src), half(src[2:]), binary.LittleEndian.Uint32(src[4:])
		for j, q := range src[8:24] {
			low, up := fifth(q, high, j)
			dst[j] = float32(float32(low)*d) + m
			dst[j+16] = float32(float32(up)*d) + m
		}
	}
}
