package quant

// A Q4_K block is 256 weights in 144 bytes, a Q5_K block in 176: d and dmin as
// binary16, eight 6-bit scales and eight 6-bit minima in twelve bytes, in Q5_K 32
// bytes of fifth bits, 128 bytes of four low bits. Weight = d · scale · code − dmin · minimum.
// Reference: quantize_row_q4_K_ref, quantize_row_q4_K_impl and their Q5_K sisters of ggml.

var (
	searchQ4K       = offsetSearch{limit: 15, table: tableTo15, first: -1, step: 0.1, tries: 20}
	searchQ5K       = offsetSearch{limit: 31, table: tableTo31, first: -0.5, step: 0.1, tries: 15}
	searchQ4KMatrix = offsetSearch{limit: 15, table: tableTo15, first: -0.9, step: 0.05, tries: 36}
	searchQ5KMatrix = offsetSearch{limit: 31, table: tableTo31, first: -0.9, step: 0.05, tries: 36}
)

func rowsQ4K[B build](dst []byte, src []float32, width int, importance []float32) {
	var codes [256]byte
	for at := 0; len(src) > 0; at = (at + 256) % width {
		x := (*[256]float32)(src)
		if importance == nil {
			scalesQ45K[B](&codes, (*[16]byte)(dst), x, searchQ4K)
		} else {
			scalesQ45KMatrix[B](&codes, (*[16]byte)(dst), x, (*[256]float32)(importance[at:]), searchQ4KMatrix)
		}
		packNibbles((*[128]byte)(dst[16:]), &codes)
		dst, src = dst[144:], src[256:]
	}
}

func rowsQ5K[B build](dst []byte, src []float32, width int, importance []float32) {
	var codes [256]byte
	for at := 0; len(src) > 0; at = (at + 256) % width {
		x := (*[256]float32)(src)
		if importance == nil {
			scalesQ45K[B](&codes, (*[16]byte)(dst), x, searchQ5K)
		} else {
			scalesQ45KMatrix[B](&codes, (*[16]byte)(dst), x, (*[256]float32)(importance[at:]), searchQ5KMatrix)
		}
		packNibbles((*[128]byte)(dst[48:]), &codes)
		packFifths((*[32]byte)(dst[16:]), &codes)
		dst, src = dst[176:], src[256:]
	}
}

// scalesQ45K finds d, dmin, scales and minima, the head of the block, and the
// codes for them, without a matrix: a weight counts as its size plus the group's root mean square.
func scalesQ45K[B build](codes *[256]byte, head *[16]byte, x *[256]float32, s offsetSearch) {
	var fits [8]offsetFit
	var w [32]float32
	var highScale, highMinimum float32
	for j := range fits {
		group := x[32*j:][:32]
		average := root(sumOfSquares[B](group) / 32)
		for i, v := range group {
			w[i] = average + magnitude(v)
		}
		fits[j] = fitOffset[B](s, group, w[:])
		if fits[j].scale > highScale {
			highScale = fits[j].scale
		}
		if fits[j].minimum > highMinimum {
			highMinimum = fits[j].minimum
		}
	}
	var inverseScale, inverseMinimum float32
	if highScale > 0 {
		inverseScale = 63 / highScale
	}
	if highMinimum > 0 {
		inverseMinimum = 63 / highMinimum
	}
	var scales, minima [8]byte
	for j, f := range fits {
		scales[j] = min(63, byte(nearestProduct[B](inverseScale, f.scale)))
		minima[j] = min(63, byte(nearestProduct[B](inverseMinimum, f.minimum)))
	}
	putHalf(head[:], highScale/63)
	putHalf(head[2:], highMinimum/63)
	packScaleMins((*[12]byte)(head[4:]), &scales, &minima)
	codesQ45K[B](codes, head, x, &fits, s.limit)
}

// scalesQ45KMatrix is scalesQ45K with an importance matrix.
func scalesQ45KMatrix[B build](codes *[256]byte, head *[16]byte, x, importance *[256]float32, s offsetSearch) {
	var fits [8]offsetFit
	var w [32]float32
	var sums, scale, minimum [8]float32
	variance := float32(2*sumOfSquares[B](x[:])) / 256
	for j := range fits {
		group := x[32*j:][:32]
		sums[j] = importanceWeights[B](w[:], group, importance[32*j:][:32], variance)
		fits[j] = fitOffset[B](s, group, w[:])
		scale[j], minimum[j] = fits[j].scale, fits[j].minimum
	}
	var scales, minima [8]byte
	d := fitScales[B](63, scale[:], scales[:], sums[:])
	dmin := fitScales[B](63, minimum[:], minima[:], sums[:])
	if s.limit == 31 { // Q5_K alone limits them once more
		for j := range scales {
			scales[j], minima[j] = min(63, scales[j]), min(63, minima[j])
		}
	}
	putHalf(head[:], d)
	putHalf(head[2:], dmin)
	packScaleMins((*[12]byte)(head[4:]), &scales, &minima)
	codesQ45K[B](codes, head, x, &fits, s.limit)
}

// sumOfSquares adds the squares in order.
func sumOfSquares[B build](x []float32) (sum float32) {
	var b B
	for _, v := range x {
		sum = mulAddIf(b, fuseSquares, v, v, sum)
	}
	return sum
}

// importanceWeights gives each weight of a group its importance times its size,
// smoothed with the variance of the block, and their sum.
func importanceWeights[B build](w, x, importance []float32, variance float32) (sum float32) {
	for i, v := range x {
		w[i] = float32(importance[i] * root(mulAdd[B](v, v, variance)))
		sum += w[i]
	}
	return sum
}

// packScaleMins stores eight scales and eight minima of six bits; scaleMin reads them.
func packScaleMins(dst *[12]byte, scales, minima *[8]byte) {
	for j := range 4 {
		dst[j] = scales[j] | scales[j+4]>>4<<6
		dst[j+4] = minima[j] | minima[j+4]>>4<<6
		dst[j+8] = scales[j+4]&0xF | minima[j+4]<<4
	}
}

// codesQ45K gives the codes of a block for its stored scales. A group whose
// scale is zero keeps those of its search.
func codesQ45K[B build](codes *[256]byte, head *[16]byte, x *[256]float32, fits *[8]offsetFit, limit int32) {
	d, dmin := half(head[:]), half(head[2:])
	for j := range fits {
		s, m := scaleMin(head[4:], j)
		group, out := (*[32]float32)(x[32*j:]), (*[32]byte)(codes[32*j:])
		if scale := float32(d * float32(s)); scale != 0 {
			codesOffset(out[:], group[:], scale, float32(dmin*float32(m)), limit)
		} else {
			offsetCodes[B](fits[j], out[:], group[:])
		}
	}
}

// codesOffset gives the codes of a group for its stored scale and minimum. The
// products that made these two are exact in float32, so no build differs here.
func codesOffset(codes []byte, x []float32, scale, minimum float32, limit int32) {
	for i, v := range x {
		codes[i] = byte(clamp(nearest((v+minimum)/scale), 0, limit))
	}
}

// packNibbles stores the four low bits of 256 codes: groups 2k and 2k+1 share bytes 32k ….
func packNibbles(dst *[128]byte, codes *[256]byte) {
	for k := range 4 {
		out, c := (*[32]byte)(dst[32*k:]), (*[64]byte)(codes[64*k:])
		for l := range out {
			out[l] = c[l]&0xF | c[l+32]<<4
		}
	}
}

// packFifths stores bit 4 of 256 codes: bit j of byte l is of code l of group j.
func packFifths(dst *[32]byte, codes *[256]byte) {
	for l := range dst {
		var bits byte
		for j := range 8 {
			bits |= codes[32*j+l] >> 4 & 1 << j
		}
		dst[l] = bits
	}
}
