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
		scales, d := scalesQ3(src[96:108]), half(src[108:])
		for i := range 4 { // half i/2 of the block, columns i mod 2 of four runs of 32 weights
			from, first := i%2*16, i/2*8+i%2
			var values [4][8]float32
			for run := range values {
				scale := float32(d * float32(scales[first+2*run]))
				for code := range values[run] {
					values[run][code] = float32(scale * float32(code-4))
				}
			}
			mask, codes := (*[16]byte)(src[from:]), (*[16]byte)(src[32+i/2*32+from:])
			weights := dst[i/2*128+from:][:112]
			for l, q := range codes {
				high := mask[l] >> (i / 2 * 4)
				weights[l] = values[0][q&3|high<<2&4]
				weights[l+32] = values[1][q>>2&3|high<<1&4]
				weights[l+64] = values[2][q>>4&3|high&4]
				weights[l+96] = values[3][q>>6|high>>1&4]
			}
		}
		dst = dst[256:]
	}
}

func dequantizeQ4_K(dst []float32, src []byte) {
	var low, high [16]float32
	for ; len(dst) > 0; src = src[144:] {
		d, dmin, scales := half(src), half(src[2:]), src[4:16]
		for j := 0; j < 8; j += 2 {
			spreadK(low[:], d, dmin, scales, j)
			spreadK(high[:], d, dmin, scales, j+1)
			codes, weights := (*[32]byte)(src[16+16*j:]), (*[64]float32)(dst)
			for l, q := range codes {
				weights[l], weights[l+32] = low[q&0xF], high[q>>4]
			}
			dst = dst[64:]
		}
	}
}

// spreadK fills values with the weights of all codes of sub-block j of a Q4_K or Q5_K block.
func spreadK(values []float32, d, dmin float32, scales []byte, j int) {
	s, m := scaleMin(scales, j)
	scale, minimum := float32(d*float32(s)), float32(dmin*float32(m))
	for code := range values {
		values[code] = float32(scale*float32(code)) - minimum
	}
}

func dequantizeQ5_K(dst []float32, src []byte) {
	var low, high [32]float32
	for ; len(dst) > 0; src = src[176:] {
		d, dmin, scales, fifths := half(src), half(src[2:]), src[4:16], (*[32]byte)(src[16:])
		for j := 0; j < 8; j += 2 {
			spreadK(low[:], d, dmin, scales, j)
			spreadK(high[:], d, dmin, scales, j+1)
			codes, weights := (*[32]byte)(src[48+16*j:]), (*[64]float32)(dst)
			for l, q := range codes {
				h := fifths[l] >> (j & 7)
				weights[l], weights[l+32] = low[q&0xF|h&1<<4], high[q>>4|h&2<<3]
			}
			dst = dst[64:]
		}
	}
}

func dequantizeQ6_K(dst []float32, src []byte) {
	for ; len(dst) > 0; src = src[210:] {
		d := half(src[208:])
		for i := range 4 { // half i/2 of the block, columns i mod 2 of four runs of 32 weights
			from := i % 2 * 16
			var scales [4]float32
			for run := range scales {
				scales[run] = float32(d * float32(int8(src[192+i/2*8+i%2+2*run])))
			}
			a, b := (*[16]byte)(src[i/2*64+from:]), (*[16]byte)(src[i/2*64+32+from:])
			highs, weights := (*[16]byte)(src[128+i/2*32+from:]), dst[i/2*128+from:][:112]
			for l, h := range highs {
				weights[l] = float32(scales[0] * codeQ6(a[l]&0xF|h<<4&0x30))
				weights[l+32] = float32(scales[1] * codeQ6(b[l]&0xF|h<<2&0x30))
				weights[l+64] = float32(scales[2] * codeQ6(a[l]>>4|h&0x30))
				weights[l+96] = float32(scales[3] * codeQ6(b[l]>>4|h>>2&0x30))
			}
		}
		dst = dst[256:]
	}
}

func codeQ6(code byte) float32 { return float32(int32(code) - 32) }
