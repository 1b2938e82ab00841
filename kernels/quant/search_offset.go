package quant

// offsetFit is the outcome of a search for the scale and minimum of a group
// of weights whose codes are unsigned: weight ≈ scale·code − minimum, 0 ≤ code ≤ limit.
type offsetFit struct {
	scale, minimum float32
	// The codes are (x − low)·inverse, rounded; both as they stood when the fit was tried.
	inverse, low float32
	limit        int32
	zero         bool // all weights equal: the codes are 0
}

// offsetSearch says which scales are tried: limit + first + i·step codes over the
// range of the weights, i = 0 … tries.
type offsetSearch struct {
	limit       int32
	first, step float32
	tries       int32
	absolute    bool // the error is the weighted absolute one, not the square
}

// offsetCodes writes the codes of a fit.
func offsetCodes[B build](f offsetFit, codes []byte, x []float32) {
	for i, v := range x {
		codes[i] = 0
		if !f.zero {
			codes[i] = byte(clamp(nearestProduct[B](f.inverse, v-f.low), 0, f.limit))
		}
	}
}

// fitOffset finds scale and minimum with the least weighted error. x has 16 or
// 32 numbers, w as many weights. Every better try moves the minimum from which
// the following ones count. Reference: make_qkx2_quants and make_qkx3_quants, which agree where weights are given.
func fitOffset[B build](s offsetSearch, x, w []float32) offsetFit {
	low, high := x[0], x[0]
	sumW := w[0]
	sumX := float32(sumW * x[0])
	for i := 1; i < len(x); i++ {
		v := x[i]
		if v < low {
			low = v
		}
		if v > high {
			high = v
		}
		sumW += w[i]
		if len(x) == 32 {
			sumX = mulAddIf[B](fuseWeighted, w[i], v, sumX)
		} else {
			sumX = mulAdd[B](w[i], v, sumX)
		}
	}
	if low > 0 {
		low = 0
	}
	if high == low {
		return offsetFit{minimum: -low, limit: s.limit, zero: true}
	}
	var codes [32]float32
	inverse := float32(s.limit) / (high - low)
	fit := offsetFit{scale: 1 / inverse, minimum: -low, inverse: inverse, low: low, limit: s.limit}
	for i, v := range x {
		codes[i] = float32(clamp(nearestProduct[B](inverse, v-low), 0, s.limit))
	}
	least := offsetError[B](fit.scale, low, &codes, x, w, s.absolute)
	for try := range s.tries + 1 {
		inverse := (mulAdd[B](s.step, float32(try), s.first) + float32(s.limit)) / (high - low)
		var sumL, sumL2, sumXL float32
		for i, v := range x {
			code := float32(clamp(nearestProduct[B](inverse, v-low), 0, s.limit))
			codes[i] = code
			weighted := float32(w[i] * code)
			sumL = mulAddIf[B](fuseAll, w[i], code, sumL)
			sumL2 = mulAddIf[B](fuseSearch, weighted, code, sumL2)
			sumXL = mulAddIf[B](fuseSearch, weighted, v, sumXL)
		}
		determinant := mulSub[B](sumW, sumL2, sumL, sumL)
		if !(determinant > 0) {
			continue
		}
		scale := scaleNumerator[B](sumW, sumXL, sumX, sumL) / determinant
		minimum := mulSub[B](sumL2, sumX, sumL, sumXL) / determinant
		if minimum > 0 {
			minimum, scale = 0, sumXL/sumL2
		}
		if e := offsetError[B](scale, minimum, &codes, x, w, s.absolute); e < least {
			least = e
			fit.inverse, fit.low = inverse, low
			fit.scale, fit.minimum, low = scale, -minimum, minimum
		}
	}
	return fit
}

// scaleNumerator gives w·xl − x·l. gcc takes the second product unrounded here, clang the first.
func scaleNumerator[B build](w, xl, x, l float32) float32 {
	if has[B](fuseStatements) {
		return mulSub[B](w, xl, x, l)
	}
	return mulAdd[B](-l, x, float32(w*xl))
}

// offsetError gives the weighted error of a scale and an offset for given codes.
func offsetError[B build](scale, offset float32, codes *[32]float32, x, w []float32, absolute bool) (sum float32) {
	if absolute {
		for i, v := range x {
			sum = mulAdd[B](w[i], magnitude(mulAdd[B](scale, codes[i], offset)-v), sum)
		}
		return sum
	}
	for i, v := range x {
		diff := mulAdd[B](scale, codes[i], offset) - v
		sum = mulAdd[B](w[i], float32(diff*diff), sum)
	}
	return sum
}
