package quant

import (
	"encoding/binary"
	"math"
)

// Quantizers of the older block types. Without a matrix the scale is that of the
// peak, or of the range; with one it is searched, and the variance that smooths the weights is that of the
// whole row. Reference: quantize_row_q4_0_ref, quantize_row_q4_0_impl and their sisters of ggml.

// blockCodes are the codes of one block of 32 weights.
type blockCodes [32]byte

func rowsQ4_0[B build](dst []byte, src []float32, width int, importance []float32) {
	var codes blockCodes
	signedBlocks[B](8, src, width, importance, &codes, func(d float32) {
		putHalf(dst, d)
		nibbles((*[16]byte)(dst[2:]), &codes, 0xFF)
		dst = dst[18:]
	})
}

func rowsQ5_0[B build](dst []byte, src []float32, width int, importance []float32) {
	var codes blockCodes
	signedBlocks[B](16, src, width, importance, &codes, func(d float32) {
		putHalf(dst, d)
		binary.LittleEndian.PutUint32(dst[2:], fifths(&codes))
		nibbles((*[16]byte)(dst[6:]), &codes, 0xF)
		dst = dst[22:]
	})
}

func rowsQ4_1[B build](dst []byte, src []float32, width int, importance []float32) {
	var codes blockCodes
	offsetBlocks[B](15, src, width, importance, &codes, func(d, m float32) {
		putHalf(dst, d)
		putHalf(dst[2:], m)
		nibbles((*[16]byte)(dst[4:]), &codes, 0xFF)
		dst = dst[20:]
	})
}

func rowsQ5_1[B build](dst []byte, src []float32, width int, importance []float32) {
	var codes blockCodes
	offsetBlocks[B](31, src, width, importance, &codes, func(d, m float32) {
		putHalf(dst, d)
		putHalf(dst[2:], m)
		binary.LittleEndian.PutUint32(dst[4:], fifths(&codes))
		nibbles((*[16]byte)(dst[8:]), &codes, 0xF)
		dst = dst[24:]
	})
}

// signedBlocks gives scale and codes of every block of Q4_0 (limit 8) or Q5_0 (16).
func signedBlocks[B build](limit int32, src []float32, width int, importance []float32, codes *blockCodes, emit func(d float32)) {
	var w [32]float32
	for len(src) > 0 {
		row := src[:width]
		if importance == nil {
			for ; len(row) > 0; row = row[32:] {
				emit(signedPeak[B](limit, (*[32]float32)(row), codes))
			}
		} else {
			variance := sumOfSquares[B](row) / float32(width)
			for at := 0; at < width; at += 32 {
				x := row[at:][:32]
				importanceWeights[B](w[:], x, importance[at:][:32], variance)
				fit := fitSigned[B](limit, x, w[:])
				signedRaw[B](fit, codes[:], x)
				emit(fit.scale)
			}
		}
		src = src[width:]
	}
}

// offsetBlocks gives scale, offset and codes of every block of Q4_1 (limit 15) or Q5_1 (31).
func offsetBlocks[B build](limit int32, src []float32, width int, importance []float32, codes *blockCodes, emit func(d, m float32)) {
	table := tableTo15
	if limit == 31 {
		table = tableTo31
	}
	search := offsetSearch{limit: limit, table: table, first: -0.9, step: 0.05, tries: 36}
	var w [32]float32
	for len(src) > 0 {
		row := src[:width]
		if importance == nil {
			for ; len(row) > 0; row = row[32:] {
				emit(offsetRange[B](limit, (*[32]float32)(row), codes))
			}
		} else {
			variance := sumOfSquares[B](row) / float32(width)
			for at := 0; at < width; at += 32 {
				x := row[at:][:32]
				importanceWeights[B](w[:], x, importance[at:][:32], variance)
				fit := fitOffset[B](search, x, w[:])
				offsetCodes[B](fit, codes[:], x)
				emit(fit.scale, -fit.minimum)
			}
		}
		src = src[width:]
	}
}

// signedPeak maps the peak to −limit.
func signedPeak[B build](limit int32, x *[32]float32, codes *blockCodes) float32 {
	var b B
	top, _ := peak(x[:])
	d := top / float32(-limit)
	inverse := reciprocal(d)
	for i, v := range x {
		code := truncateByte[B](mulAddIf(b, fuseNearest, v, inverse, float32(limit)+0.5))
		codes[i] = byte(min(2*limit-1, code))
	}
	return d
}

// offsetRange maps the smallest weight to 0 and the largest to limit. Only Q4_1 limits the codes.
func offsetRange[B build](limit int32, x *[32]float32, codes *blockCodes) (d, m float32) {
	var b B
	low, high := float32(math.MaxFloat32), float32(-math.MaxFloat32)
	for _, v := range x {
		if v < low {
			low = v
		}
		if v > high {
			high = v
		}
	}
	d = (high - low) / float32(limit)
	inverse := reciprocal(d)
	for i, v := range x {
		q := mulAddIf(b, fuseNearest, v-low, inverse, 0.5)
		if limit == 15 {
			codes[i] = byte(min(limit, truncateByte[B](q)))
		} else {
			codes[i] = byte(truncate[B](q))
		}
	}
	return d, low
}

// reciprocal is 1/d, and 0 for 0.
func reciprocal(d float32) float32 {
	if d == 0 {
		return 0
	}
	return 1 / d
}

// nibbles stores the low bits of 32 codes: the first sixteen in the low halves of the bytes.
// The mask is 15 where codes have a fifth bit; where not, what arm64 makes of weights too
// small for their reciprocal spills from the first half into the second.
func nibbles(dst *[16]byte, codes *blockCodes, mask byte) {
	for j := range dst {
		dst[j] = codes[j]&mask | codes[j+16]<<4
	}
}

// fifths gathers bit 4 of 32 codes.
func fifths(codes *blockCodes) (bits uint32) {
	for j, c := range codes {
		bits |= uint32(c>>4&1) << j
	}
	return bits
}
