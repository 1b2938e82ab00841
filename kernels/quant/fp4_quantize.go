package quant

import "math"

// MXFP4 and NVFP4 as ggml writes them, without a search. A scale times a doubled
// E2M1 number is exact, so that no build can differ. Reference:
// quantize_row_mxfp4_ref, quantize_row_nvfp4_ref and ggml_fp32_to_ue4m3 in ggml.

func quantizeMXFP4(dst []byte, src []float32) {
	for ; len(src) > 0; dst, src = dst[17:], src[32:] {
		_, top := peak(src[:32])
		dst[0] = exponentMXFP4(top)
		codesFP4(dst[1:17], src[:32], halfE8M0(dst[0]))
	}
}

// exponentMXFP4 is ⌊log2(top)⌋ − 2 with E8M0's bias. The logarithm is rounded
// to float32, so that a top just below a power of two counts as that power.
// Below 2^-125 C leaves the result undefined; x86-64 wraps around to a huge scale.
// An infinite top gives 0, also by x86-64's conversion.
func exponentMXFP4(top float32) byte {
	bits := math.Float32bits(top)
	switch {
	case bits == 0 || bits == 0x7F800000:
		return 0
	case bits >= 0x00800000 && bits&0x7FFFFF < 0x7FFF00:
		return byte(bits>>23) - 2
	}
	return byte(int(math.Floor(float64(float32(math.Log2(float64(top)))))) - 2 + 127)
}

func quantizeNVFP4(dst []byte, src []float32) {
	for ; len(src) > 0; dst = dst[36:] {
		for i := range 4 {
			_, top := peak(src[:16])
			dst[i] = roundUE4M3(top / 6)
			codesFP4(dst[4+8*i:][:8], src[:16], halfUE4M3(dst[i]))
			src = src[16:]
		}
	}
}

// roundUE4M3 rounds to E4M3 as ggml does: halves up, and everything that reaches
// 256 becomes 448. x is not negative and not a NaN.
func roundUE4M3(x float32) byte {
	bits := math.Float32bits(x)
	switch {
	case bits < 0x3C800000: // below 2^-6: subnormal, in units of 2^-9, at most 7 of them
		return byte(min(7, int(float32(x*512)+0.5)))
	case bits >= 0x43780000: // 248, which rounds to 256
		return 0x7E
	}
	return byte((bits + 1<<19 - 120<<23) >> 20)
}

// codesFP4 packs the codes nearest to the weights, the first half of them in the
// low halves of the bytes.
func codesFP4(dst []byte, src []float32, d float32) {
	limits := [7]float32{0.5, 1.5, 2.5, 3.5, 5, 7, 10}
	var steps [7]int32
	for i, l := range limits {
		steps[i] = int32(math.Float32bits(float32(d * l)))
	}
	// Within 16 scales the differences from the numbers next to a weight are exact,
	// unless those numbers overflow.
	top := float32(16 * d)
	if top > math.MaxFloat32 {
		top = -1
	}
	low, high := src[:len(dst)], src[len(dst):][:len(dst)]
	for i := range dst {
		a, b := low[i], high[i]
		if !(magnitude(a) <= top && magnitude(b) <= top) {
			dst[i] = nearestFP4(a, d) | nearestFP4(b, d)<<4
			continue
		}
		dst[i] = codeFP4(a, &steps) | codeFP4(b, &steps)<<4
	}
}

// codeFP4 counts the steps, in order of their bits as those of positive numbers are,
// that a weight exceeds: a tie goes to the smaller magnitude, and zero has no sign.
func codeFP4(x float32, steps *[7]int32) byte {
	bits := math.Float32bits(x)
	m := int32(bits & 0x7FFFFFFF)
	n := uint32(steps[0]-m)>>31 + uint32(steps[1]-m)>>31 + uint32(steps[2]-m)>>31 + uint32(steps[3]-m)>>31 +
		uint32(steps[4]-m)>>31 + uint32(steps[5]-m)>>31 + uint32(steps[6]-m)>>31
	return byte(n | bits>>28&8&-((n+7)>>3<<3))
}

// nearestFP4 is the definition: the first number of the codebook with the
// smallest rounded distance. A NaN, or a weight so large that all distances round to the
// same, gets code 0.
func nearestFP4(x, d float32) byte {
	best, smallest := 0, magnitude(float32(bookFP4[0]*d)-x)
	for i, v := range bookFP4 {
		if e := magnitude(float32(v*d) - x); e < smallest {
			best, smallest = i, e
		}
	}
	return byte(best)
}
