package quant

import (
	"math"
	"math/bits"
)

// signedFit is the outcome of a search for the scale of a group of weights whose
// codes are signed: weight ≈ scale·code, −limit ≤ code < limit.
type signedFit struct {
	scale   float32
	inverse float32 // the codes are x·inverse, rounded
	limit   int32
	zero    bool // a group of no size: its raw codes are 0
}

// raw writes the codes shifted to 0 … 2·limit−1, as blocks store them.
func signedRaw[B build](f signedFit, codes []byte, x []float32) {
	for i, v := range x {
		codes[i] = 0
		if !f.zero {
			codes[i] = byte(clamp(nearestProduct[B](f.inverse, v), -f.limit, f.limit-1) + f.limit)
		}
	}
}

// fitSigned finds the scale with the least weighted square error among nineteen:
// the one that maps the peak to −limit, and its neighbours at steps of a tenth
// of a code. Each is then improved by the least-squares scale for its codes.
// x has 16 or 32 numbers, w as many weights. Reference: make_qx_quants with rmse_type 1.
func fitSigned[B build](limit int32, x, w []float32) signedFit {
	top, size := peak(x)
	if size < tiny {
		return signedFit{limit: limit, zero: true}
	}
	first, later := fuse, fuseStatements
	if len(x) == 32 {
		first, later = fuseSearch, fuseAll
	}
	var codes groupCodes
	var weighted [32]float32
	for i, v := range x {
		weighted[i] = float32(w[i] * v)
	}
	table := signedTables[bits.TrailingZeros32(uint32(limit)>>2)]
	inverse := float32(-limit) / top
	fill[B](&codes, table, inverse, 0, x)
	sumLX, sumL2 := signedSums[B](first, codes[:len(x)], weighted[:len(x)], w)
	fit := signedFit{inverse: inverse, limit: limit}
	if sumL2 != 0 {
		fit.scale = sumLX / sumL2
	}
	best := float32(fit.scale * sumLX)
	for step := int32(-9); step <= 9; step++ {
		if step == 0 {
			continue
		}
		inverse := -mulAdd[B](0.1, float32(step), float32(limit)) / top
		if !fill[B](&codes, table, inverse, 0, x) && step > -9 {
			continue
		}
		sumLX, sumL2 := signedSums[B](later, codes[:len(x)], weighted[:len(x)], w)
		if sumL2 > 0 && float32(sumLX*sumLX) > float32(best*sumL2) {
			fit.inverse, fit.scale = inverse, sumLX/sumL2
			best = float32(fit.scale * sumLX)
		}
	}
	return fit
}

// signedSums gives Σ w·x·code and Σ w·code²; weighted holds w·x. The property
// says which builds fuse the sums.
func signedSums[B build](property int, codes []uint32, weighted, w []float32) (lx, l2 float32) {
	var b B
	weighted, w = weighted[:len(codes)], w[:len(codes)]
	for i, c := range codes {
		code := math.Float32frombits(c)
		lx = mulAddIf(b, property, weighted[i], code, lx)
		l2 = mulAddIf(b, property, float32(w[i]*code), code, l2)
	}
	return lx, l2
}
