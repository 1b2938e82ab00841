package lowfloat

import "math"

// FromE4M3 gives the E4M3 code nearest to x, ties to even. What is beyond 448,
// infinities too, saturates to 448; a NaN becomes 0x7F. The sign is kept, also
// that of a zero or a NaN. These are the casts of PyTorch 2.15 to float8_e4m3fn, and
// the saturating mode of the OCP specification; other implementations give NaN
// for what rounds beyond 448.
func FromE4M3(x float32) byte {
	bits := math.Float32bits(x)
	sign, abs := byte(bits>>24&0x80), bits&0x7FFFFFFF
	switch {
	case abs > 0x7F800000:
		return sign | 0x7F
	case abs >= 0x43E00000: // 448
		return sign | 0x7E
	case abs >= 0x3C800000: // 2^-6, the smallest normal number
		return sign | byte((abs+0x7FFFF+abs>>20&1-120<<23)>>20)
	}
	// Next to 2^14 the float32 numbers are 2^-9 apart, as the subnormal codes are.
	return sign | byte(math.Float32bits(math.Float32frombits(abs)+1<<14)-0x46800000)
}

// FromE2M1 gives the E2M1 code nearest to x, in the low four bits, ties to
// even. What is beyond 6, infinities too, saturates to 6. The format has no NaN:
// each becomes 6, code 7, as in CUDA's conversion. The sign of a number is kept,
// also that of a zero.
func FromE2M1(x float32) byte {
	bits := math.Float32bits(x)
	sign, abs := byte(bits>>28&8), bits&0x7FFFFFFF
	switch {
	case abs > 0x7F800000:
		return 7
	case abs >= 0x40C00000: // 6
		return sign | 7
	case abs >= 0x3F800000: // 1, the smallest normal number
		return sign | byte((abs+0x1FFFFF+abs>>22&1-126<<23)>>22)
	}
	// Next to 2^22 the float32 numbers are 1/2 apart, as the subnormal codes are.
	return sign | byte(math.Float32bits(math.Float32frombits(abs)+1<<22)-0x4A800000)
}
