package quant

// The types of one and two bits and of ternary digits, with one binary16 scale a
// block. Reference: dequantize_row_tq1_0, _tq2_0, _q1_0 and _q2_0 in ggml.

// ternary gives d times -1, 0, 1 and 2.
func ternary(d float32) [4]float32 {
	return [4]float32{-d, float32(0 * d), d, float32(2 * d)}
}

// placeTrits writes the digits of bytes that each hold count ternary digits, as a fixed-point
// fraction in base 3: first the first digit of every byte.
func placeTrits(dst []float32, values *[4]float32, codes []byte, count int) []float32 {
	power := byte(1)
	for range count {
		part := dst[:len(codes)]
		for i, q := range codes {
			part[i] = values[uint16(q*power)*3>>8&3]
		}
		power *= 3
		dst = dst[len(codes):]
	}
	return dst
}

func dequantizeTQ1_0(dst []float32, src []byte) {
	for ; len(dst) > 0; src = src[54:] {
		values := ternary(half(src[52:]))
		dst = placeTrits(dst, &values, src[:32], 5)
		dst = placeTrits(dst, &values, src[32:48], 5)
		dst = placeTrits(dst, &values, src[48:52], 4)
	}
}

func dequantizeTQ2_0(dst []float32, src []byte) {
	for ; len(dst) > 0; src = src[66:] {
		values := ternary(half(src[64:]))
		for codes := src[:64]; len(codes) > 0; codes = codes[32:] {
			for i, q := range codes[:32] {
				weights := dst[i:][:97]
				weights[0], weights[32], weights[64], weights[96] = values[q&3], values[q>>2&3], values[q>>4&3], values[q>>6]
			}
			dst = dst[128:]
		}
	}
}

func dequantizeQ2_0(dst []float32, src []byte) {
	for ; len(dst) > 0; src = src[18:] {
		values := ternary(half(src))
		for _, q := range src[2:18] {
			weights := (*[4]float32)(dst)
			weights[0], weights[1], weights[2], weights[3] = values[q&3], values[q>>2&3], values[q>>4&3], values[q>>6]
			dst = dst[4:]
		}
	}
}

func dequantizeQ1_0(dst []float32, src []byte) {
	for ; len(dst) > 0; src = src[18:] {
		d := half(src)
		values := [2]float32{-d, d}
		for _, q := range src[2:18] {
			weights := (*[8]float32)(dst)
			for i := range weights {
				weights[i] = values[q>>i&1]
			}
			dst = dst[8:]
		}
	}
}
