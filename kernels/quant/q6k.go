package quant

// A Q6_K block is 256 weights in 210 bytes: 128 bytes of four low bits, 64 of two
// high bits, sixteen signed 8-bit scales, d as binary16. Weight = d · scale · (code − 32).
// Reference: quantize_row_q6_K_ref and quantize_row_q6_K_impl of ggml.

func rowsQ6K[B build](dst []byte, src []float32, width int, importance []float32) {
	for at := 0; len(src) > 0; at = (at + 256) % width {
		blockQ6K[B]((*[210]byte)(dst), (*[256]float32)(src), column(importance, at, 256))
		dst, src = dst[210:], src[256:]
	}
}

func blockQ6K[B build](dst *[210]byte, x *[256]float32, importance []float32) {
	var fits [16]signedFit
	var squares [16]float32
	var top, size float32
	for j := range fits {
		group, w := x[16*j:][:16], squares[:]
		if importance != nil {
			w = importance[16*j:][:16]
		} else {
			square(&squares, group)
		}
		fits[j] = fitSigned[B](32, group, w)
		if a := magnitude(fits[j].scale); a > size {
			top, size = fits[j].scale, a
		}
	}
	*dst = [210]byte{}
	if size < tiny {
		return
	}
	inverse := -128 / top
	putHalf(dst[208:], 1/inverse)
	for j := range fits {
		dst[192+j] = byte(min(127, nearestProduct[B](inverse, fits[j].scale)))
	}
	var codes [256]byte
	d := half(dst[208:])
	for j := range fits {
		group, out := (*[16]float32)(x[16*j:]), (*[16]byte)(codes[16*j:])
		if scale := float32(d * float32(int8(dst[192+j]))); scale != 0 {
			codesSigned(out, group, scale, 32)
		} else {
			signedRaw[B](fits[j], out[:], group[:])
		}
	}
	packQ6K(dst, &codes)
}

// square gives the squares of sixteen numbers.
func square(dst *[16]float32, x []float32) {
	for i, v := range x[:16] {
		dst[i] = float32(v * v)
	}
}

// codesSigned gives the codes of a group for its stored scale, shifted to 0 … 2·limit−1.
func codesSigned(codes *[16]byte, x *[16]float32, scale float32, limit int32) {
	for i, v := range x {
		codes[i] = byte(clamp(nearest(v/scale), -limit, limit-1) + limit)
	}
}

// packQ6K stores 256 six-bit codes: in each half, byte l of four quarters.
func packQ6K(dst *[210]byte, codes *[256]byte) {
	for h := range 2 {
		low, high := (*[64]byte)(dst[64*h:]), (*[32]byte)(dst[128+32*h:])
		c := (*[128]byte)(codes[128*h:])
		for l := range high {
			low[l] = c[l]&0xF | c[l+64]<<4
			low[l+32] = c[l+32]&0xF | c[l+96]<<4
			high[l] = c[l]>>4 | c[l+32]>>4<<2 | c[l+64]>>4<<4 | c[l+96]>>4<<6
		}
	}
}
