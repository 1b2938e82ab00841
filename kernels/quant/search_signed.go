package quant

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
// x has 16 or 32 numbers, w as many weights, or none for the squares of x. Reference: make_qx_quants with rmse_type 1.
func fitSigned[B build](limit int32, x, w []float32) signedFit {
	top, size := peak(x)
	if size < tiny {
		return signedFit{limit: limit, zero: true}
	}
	first, later := fuse, fuseStatements
	if len(x) == 32 {
		first, later = fuseSearch, fuseAll
	}
	inverse := float32(-limit) / top
	sumLX, sumL2 := signedSums[B](first, inverse, limit, x, w)
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
		sumLX, sumL2 := signedSums[B](later, inverse, limit, x, w)
		if sumL2 > 0 && float32(sumLX*sumLX) > float32(best*sumL2) {
			fit.inverse, fit.scale = inverse, sumLX/sumL2
			best = float32(fit.scale * sumLX)
		}
	}
	return fit
}

// signedSums gives Σ w·x·code and Σ w·code² for the codes of an inverse scale.
// The property says which builds fuse the sums.
func signedSums[B build](property int, inverse float32, limit int32, x, w []float32) (lx, l2 float32) {
	for i, v := range x {
		code := float32(clamp(nearestProduct[B](inverse, v), -limit, limit-1))
		weight := w[i]
		lx = mulAddIf[B](property, float32(weight*v), code, lx)
		l2 = mulAddIf[B](property, float32(weight*code), code, l2)
	}
	return lx, l2
}
