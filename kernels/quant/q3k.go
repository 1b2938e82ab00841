package quant

// A Q3_K block is 256 weights in 110 bytes: 32 bytes of third bits, 64 bytes of
// two low bits, sixteen 6-bit scales in twelve bytes, d as binary16.
// Weight = d · (scale − 32) · (code − 4). Reference: quantize_row_q3_K_ref and
// quantize_row_q3_K_impl of ggml.

func rowsQ3K[B build](dst []byte, src []float32, width int, importance []float32) {
	for at := 0; len(src) > 0; at = (at + 256) % width {
		block, x := (*[110]byte)(dst), (*[256]float32)(src)
		var codes [256]byte
		if importance == nil {
			scalesQ3K[B](block, &codes, x)
		} else {
			scalesQ3KMatrix[B](block, &codes, x, (*[256]float32)(importance[at:]))
		}
		recodeGroupsQ3K(block, &codes, x)
		packQ3K(block, &codes)
		dst, src = dst[110:], src[256:]
	}
}

// scalesQ3K finds d, scales and first codes without a matrix.
func scalesQ3K[B build](dst *[110]byte, codes *[256]byte, x *[256]float32) {
	var fits [16]float32
	var top, size float32
	for j := range fits {
		fits[j] = fitQ3[B]((*[16]float32)(x[16*j:]), (*[16]byte)(codes[16*j:]))
		if a := magnitude(fits[j]); a > size {
			top, size = fits[j], a
		}
	}
	var scales [16]byte
	var d float32
	if top != 0 {
		inverse := -32 / top
		for j, f := range fits {
			scales[j] = byte(clamp(int32(int8(nearestProduct[B](inverse, f))), -32, 31) + 32)
		}
		d = 1 / inverse
	}
	packScalesQ3((*[12]byte)(dst[96:]), &scales)
	putHalf(dst[108:], d)
}

// scalesQ3KMatrix is scalesQ3K with an importance matrix.
func scalesQ3KMatrix[B build](dst *[110]byte, codes *[256]byte, x, importance *[256]float32) {
	var fits, sums [16]float32
	var w [16]float32
	variance := float32(2*sumOfSquares[B](x[:])) / 256
	for j := range fits {
		group := x[16*j:][:16]
		sums[j] = importanceWeights[B](w[:], group, importance[16*j:][:16], variance)
		fit := fitSigned[B](4, group, w[:])
		signedRaw[B](fit, codes[16*j:][:16], group)
		fits[j] = fit.scale
	}
	var scales [16]byte
	fit := fitSigned[B](32, fits[:], sums[:])
	signedRaw[B](fit, scales[:], fits[:])
	packScalesQ3((*[12]byte)(dst[96:]), &scales)
	putHalf(dst[108:], fit.scale)
}

// recodeGroupsQ3K computes the codes of the groups whose stored scale is not zero.
func recodeGroupsQ3K(block *[110]byte, codes *[256]byte, x *[256]float32) {
	d := half(block[108:])
	for j, s := range scalesQ3(block[96:108]) {
		if scale := float32(d * float32(s)); scale != 0 {
			codesSigned((*[16]byte)(codes[16*j:]), (*[16]float32)(x[16*j:]), scale, 4)
		}
	}
}

// packScalesQ3 stores sixteen scales of six bits; scalesQ3 reads them.
func packScalesQ3(dst *[12]byte, scales *[16]byte) {
	for j := range 8 {
		dst[j] = scales[j]&0xF | scales[j+8]<<4
	}
	for j := range 4 {
		dst[8+j] = scales[j]>>4 | scales[j+4]>>4<<2 | scales[j+8]>>4<<4 | scales[j+12]>>4<<6
	}
}

// packQ3K stores 256 codes of three bits.
func packQ3K(dst *[110]byte, codes *[256]byte) {
	packPairs((*[64]byte)(dst[32:]), codes)
	for l := range 32 {
		var bits byte
		for j := range 8 {
			bits |= codes[32*j+l] >> 2 & 1 << j
		}
		dst[l] = bits
	}
}

// packPairs stores the two low bits of 256 codes: four of a half share a byte.
func packPairs(dst *[64]byte, codes *[256]byte) {
	for h := range 2 {
		out, c := (*[32]byte)(dst[32*h:]), (*[128]byte)(codes[128*h:])
		for l := range out {
			out[l] = c[l]&3 | c[l+32]&3<<2 | c[l+64]&3<<4 | c[l+96]<<6
		}
	}
}

// unpackQ3K is the inverse of packQ3K.
func unpackQ3K(codes *[256]byte, src *[110]byte) {
	unpackPairs(codes, (*[64]byte)(src[32:]))
	for l, bits := range src[:32] {
		for j := range 8 {
			codes[32*j+l] |= bits >> j & 1 << 2
		}
	}
}

// unpackPairs is the inverse of packPairs.
func unpackPairs(codes *[256]byte, src *[64]byte) {
	for h := range 2 {
		in, c := (*[32]byte)(src[32*h:]), (*[128]byte)(codes[128*h:])
		for l, q := range in {
			c[l], c[l+32], c[l+64], c[l+96] = q&3, q>>2&3, q>>4&3, q>>6
		}
	}
}
