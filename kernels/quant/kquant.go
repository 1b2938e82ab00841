package quant

// The K types: blocks of 256 weights with sub-blocks of 16 or 32, whose scales
// (and minima) are small integers times a binary16 d (and dmin). Reference:
// dequantize_row_q2_K to dequantize_row_q6_K in ggml.

// scaleMin gives the 6-bit scale and minimum of sub-block j of a Q4_K or Q5_K block.
func scaleMin(q []byte, j int) (scale, minimum byte) {
	if j < 4 {
		return q[j] & 63, q[j+4] & 63
	}
	return q[j+4]&0xF | q[j-4]>>6<<4, q[j+4]>>4 | q[j]>>6<<4
}

func dequantizeQ2_K(dst []float32, src []byte) {
	for ; len(dst) > 0; src = src[84:] {
		scales, codes, d, dmin := src[:16], src[16:80], half(src[80:]), half(src[82:])
		for i, s := range scales {
			// Sub-block i holds 16 codes of two bits: of half i/8, shifted by 2·(i/2 mod 4).
			part := codes[i/8*32+i%2*16:][:16]
			shift := i / 2 % 4 * 2
			scale, minimum := float32(d*float32(s&0xF)), float32(dmin*float32(s>>4))
			for l, q := range part {
				dst[l] = float32(scale*float32(q>>shift&3)) - minimum
			}
			dst = dst[16:]
		}
	}
}

// scalesQ3 unpacks sixteen 6-bit scales from twelve bytes: four low bits in
// the first eight bytes, two high bits in the last four.
func scalesQ3(p []byte) (scales [16]int) {
	for i := range scales {
		low := p[i%8] >> (i / 8 * 4) & 0xF
		high := p[8+i%4] >> (i / 4 * 2) & 3
		scales[i] = int(low|high<<4) - 32
	}
	return scales
}

func dequantizeQ3_K(dst []float32, src []byte) {
	for ; len(dst) > 0; src = src[110:] {
		mask, codes, scales, d := src[:32], src[32:96], scalesQ3(src[96:108]), half(src[108:])
		for i, s := range scales {
			part, high := codes[i/8*32+i%2*16:][:16], mask[i%2*16:][:16]
			shift, bit := i/2%4*2, i/2
			scale := float32(d * float32(s))
			for l, q := range part {
				code := int(q>>shift&3) + int(high[l]>>bit&1)*4 - 4
				dst[l] = float32(scale * float32(code))
			}
			dst = dst[16:]
		}
	}
}

func dequantizeQ4_K(dst []float32, src []byte) {
	for ; len(dst) > 0; src = src[144:] {
		d, dmin, scales, codes := half(src), half(src[2:]), src[4:16], src[16:144]
		for j := range 8 {
			s, m := scaleMin(scales, j)
			scale, minimum := float32(d*float32(s)), float32(dmin*float32(m))
			for l, q := range codes[j/2*32:][:32] {
				dst[l] = float32(scale*float32(q>>(j%2*4)&0xF)) - minimum
			}
			dst = dst[32:]
		}
	}
}

func dequantizeQ5_K(dst []float32, src []byte) {
	for ; len(dst) > 0; src = src[176:] {
		d, dmin, scales, high, codes := half(src), half(src[2:]), src[4:16], src[16:48], src[48:176]
		for j := range 8 {
			s, m := scaleMin(scales, j)
			scale, minimum := float32(d*float32(s)), float32(dmin*float32(m))
			for l, q := range codes[j/2*32:][:32] {
				code := q>>(j%2*4)&0xF | high[l]>>j&1<<4
				dst[l] = float32(scale*float32(code)) - minimum
			}
			dst = dst[32:]
		}
	}
}

func dequantizeQ6_K(dst []float32, src []byte) {
	for ; len(dst) > 0; src = src[210:] {
		low, high, scales, d := src[:128], src[128:192], src[192:208], half(src[208:])
		for i, s := range scales {
			// Sub-block i: half i/8 of the block, quarter i/2 mod 4 of that, sixteen codes.
			quarter, from := i/2%4, i%2*16
			lows := low[i/8*64+quarter%2*32+from:][:16]
			highs := high[i/8*32+from:][:16]
			scale := float32(d * float32(int8(s)))
			for l, q := range lows {
				code := int(q>>(quarter/2*4)&0xF|highs[l]>>(quarter*2)&3<<4) - 32
				dst[l] = float32(scale * float32(code))
			}
			dst = dst[16:]
		}
	}
}
