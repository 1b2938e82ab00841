package quant

import "encoding/binary"

// IQ4_NL: 32 weights in 18 bytes, d as binary16 and sixteen bytes of 4-bit codes
// that index a codebook. IQ4_XS: 256 weights in 136 bytes, d, a word of the high
// bits and four bytes of the low bits of eight 6-bit scales, 128 bytes of codes.
// Reference: quantize_row_iq4_nl_impl of ggml with seven tries to each side.

func rowsIQ4NL[B build](dst []byte, src []float32, width int, importance []float32) {
	for at := 0; len(src) > 0; at = (at + 32) % width {
		x := (*[32]float32)(src)
		scale := fitIQ4[B](x, column(importance, at, 32), meanSquare2[B](x[:]))
		putHalf(dst, scale)
		nibblesIQ4((*[16]byte)(dst[2:]), x, reciprocal(scale))
		dst, src = dst[18:], src[32:]
	}
}

func rowsIQ4XS[B build](dst []byte, src []float32, width int, importance []float32) {
	for at := 0; len(src) > 0; at = (at + 256) % width {
		blockIQ4XS[B]((*[136]byte)(dst), (*[256]float32)(src), column(importance, at, 256))
		dst, src = dst[136:], src[256:]
	}
}

func blockIQ4XS[B build](dst *[136]byte, x *[256]float32, importance []float32) {
	variance := meanSquare2[B](x[:])
	var scales [8]float32
	var top, size float32
	for j := range scales {
		var group []float32
		if importance != nil {
			group = importance[32*j:][:32]
		}
		scales[j] = fitIQ4[B]((*[32]float32)(x[32*j:]), group, variance)
		if a := magnitude(scales[j]); a > size {
			top, size = scales[j], a
		}
	}
	d := -top / 32
	putHalf(dst[:], d)
	inverse := reciprocal(d)
	var high uint16
	var low [4]byte
	for j, scale := range scales {
		code := clamp(nearestProduct[B](inverse, scale), -32, 31)
		nibblesIQ4((*[16]byte)(dst[8+16*j:]), (*[32]float32)(x[32*j:]), reciprocal(float32(d*float32(code))))
		low[j/2] |= byte(code+32) & 0xF << (j % 2 * 4)
		high |= uint16(code+32) >> 4 << (2 * j)
	}
	binary.LittleEndian.PutUint16(dst[2:], high)
	copy(dst[4:8], low[:])
}

// meanSquare2 is twice the mean of the squares.
func meanSquare2[B build](x []float32) float32 {
	var b B
	var sum float32
	for _, v := range x {
		sum = mulAddIf(b, fuseSquaresIQ4, v, v, sum)
	}
	return float32(sum * (2 / float32(len(x))))
}

// fitIQ4 finds the scale with the least weighted square error among sixteen:
// those that map the peak to −127 + step, each improved by the least-squares scale for its codes.
// Without importance a weight counts as its square.
func fitIQ4[B build](x *[32]float32, importance []float32, variance float32) float32 {
	var w [32]float32
	if importance != nil {
		importanceWeights[B](w[:], x[:], importance, variance)
	} else {
		for i, v := range x {
			w[i] = float32(v * v)
		}
	}
	top, size := peak(x[:])
	if size < tiny {
		return 0
	}
	sumQX, sumQ2 := sumsIQ4[B](1/(-top/-127), x, &w)
	var d float32
	if sumQ2 > 0 {
		d = sumQX / sumQ2
	}
	best := float32(d * sumQX)
	for step := -7; step <= 7; step++ {
		sumQX, sumQ2 := sumsIQ4[B](float32(step-127)/top, x, &w)
		if sumQ2 > 0 && float32(sumQX*sumQX) > float32(best*sumQ2) {
			d = sumQX / sumQ2
			best = float32(d * sumQX)
		}
	}
	return d
}

// sumsIQ4 gives Σ w·q·x and Σ w·q² where q is the codebook's number nearest to x·inverse.
func sumsIQ4[B build](inverse float32, x, w *[32]float32) (qx, q2 float32) {
	for i, v := range x {
		q := bookIQ4[indexIQ4(float32(inverse*v))&15]
		weighted := float32(w[i] * q)
		qx = mulAdd[B](weighted, v, qx)
		q2 = mulAdd[B](weighted, q, q2)
	}
	return qx, q2
}

func nibblesIQ4(dst *[16]byte, x *[32]float32, inverse float32) {
	for j := range dst {
		dst[j] = indexIQ4(float32(inverse*x[j])) | indexIQ4(float32(inverse*x[j+16]))<<4
	}
}

// indexIQ4 gives the position of the codebook's number nearest to f, the larger
// one in the middle between two. A NaN gets the last, as in the reference.
//
// The middles are multiples of a half, so the position depends on ⌊2f⌋ alone. The sum in
// float64 is exact wherever f is near a middle.
func indexIQ4(f float32) byte {
	if !(f < 113) {
		return 15
	}
	if f <= -127 {
		return 0
	}
	return indicesIQ4[int32(float64(2*f)+256)&511]
}

// indicesIQ4 holds the position for every ⌊2f⌋ + 256.
var indicesIQ4 = func() (indices [512]byte) {
	for i := range indices {
		for k := 1; k < 16; k++ {
			if float32(i-256) >= bookIQ4[k-1]+bookIQ4[k] {
				indices[i] = byte(k)
			}
		}
	}
	return indices
}()
