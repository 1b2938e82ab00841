package quant

// A Q2_K block is 256 weights in 84 bytes: sixteen bytes, each a 4-bit scale and
// a 4-bit minimum, 64 bytes of 2-bit codes, d and dmin as binary16.
// Weight = d · scale · code − dmin · minimum. Reference: quantize_row_q2_K_ref and
// quantize_row_q2_K_impl of ggml.

var (
	searchQ2K       = offsetSearch{limit: 3, table: tableTo3, first: -0.5, step: 0.1, tries: 15, absolute: true}
	searchQ2KMatrix = offsetSearch{limit: 3, table: tableTo3, first: -0.9, step: 0.05, tries: 36}
)

func rowsQ2K[B build](dst []byte, src []float32, width int, importance []float32) {
	for at := 0; len(src) > 0; at = (at + 256) % width {
		block, x := (*[84]byte)(dst), (*[256]float32)(src)
		var fits [16]offsetFit
		if importance == nil {
			scalesQ2K[B](block, &fits, x)
		} else {
			scalesQ2KMatrix[B](block, &fits, x, (*[256]float32)(importance[at:]))
		}
		var codes [256]byte
		for j := range fits {
			offsetCodes[B](fits[j], codes[16*j:][:16], x[16*j:][:16])
		}
		recodeGroupsQ2K(block, &codes, x)
		packPairs((*[64]byte)(block[16:]), &codes)
		dst, src = dst[84:], src[256:]
	}
}

// scalesQ2K finds d, dmin, scales and minima without a matrix: a weight counts as its size.
func scalesQ2K[B build](dst *[84]byte, fits *[16]offsetFit, x *[256]float32) {
	var highScale, highMinimum float32
	var w [16]float32
	for j := range fits {
		group := x[16*j:][:16]
		for i, v := range group {
			w[i] = magnitude(v)
		}
		fits[j] = fitOffset[B](searchQ2K, group, w[:])
		if fits[j].scale > highScale {
			highScale = fits[j].scale
		}
		if fits[j].minimum > highMinimum {
			highMinimum = fits[j].minimum
		}
	}
	var inverseScale, inverseMinimum float32
	if highScale > 0 {
		inverseScale = 15 / highScale
	}
	if highMinimum > 0 {
		inverseMinimum = 15 / highMinimum
	}
	for j, f := range fits {
		dst[j] = byte(nearestProduct[B](inverseScale, f.scale)) | byte(nearestProduct[B](inverseMinimum, f.minimum))<<4
	}
	putHalf(dst[80:], highScale/15)
	putHalf(dst[82:], highMinimum/15)
}

// scalesQ2KMatrix is scalesQ2K with an importance matrix.
func scalesQ2KMatrix[B build](dst *[84]byte, fits *[16]offsetFit, x, importance *[256]float32) {
	var w, sums, scale, minimum [16]float32
	variance := sumOfSquares[B](x[:]) / 256
	for j := range fits {
		group := x[16*j:][:16]
		sums[j] = importanceWeights[B](w[:], group, importance[16*j:][:16], variance)
		fits[j] = fitOffset[B](searchQ2KMatrix, group, w[:])
		scale[j], minimum[j] = fits[j].scale, fits[j].minimum
	}
	var scales, minima [16]byte
	putHalf(dst[80:], fitScales[B](15, scale[:], scales[:], sums[:]))
	putHalf(dst[82:], fitScales[B](15, minimum[:], minima[:], sums[:]))
	for j := range scales {
		dst[j] = scales[j] | minima[j]<<4
	}
}

// recodeGroupsQ2K computes the codes of the groups whose stored scale is not zero.
func recodeGroupsQ2K(block *[84]byte, codes *[256]byte, x *[256]float32) {
	d, dmin := half(block[80:]), half(block[82:])
	for j, s := range block[:16] {
		if scale := float32(d * float32(s&0xF)); scale != 0 {
			codesOffset(codes[16*j:][:16], x[16*j:][:16], scale, float32(dmin*float32(s>>4)), 3)
		}
	}
}
