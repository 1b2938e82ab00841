package quant

import "math"

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
	table       *codeTable // of that limit
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

// offsetSums are the sums over a group of weights that do not depend on the codes.
type offsetSums struct {
	lowest, high float32
	w, wx        float32
	ordered      bool // no weight is negative: errors only grow
}

func sumOffset[B build](x, w []float32) offsetSums {
	var b B
	s := offsetSums{lowest: x[0], high: x[0], w: w[0], wx: float32(w[0] * x[0]), ordered: w[0] >= 0}
	property := fuse
	if len(x) == 32 {
		property = fuseWeighted
	}
	w = w[:len(x)]
	for i := 1; i < len(x); i++ {
		v := x[i]
		if v < s.lowest {
			s.lowest = v
		}
		if v > s.high {
			s.high = v
		}
		if !(w[i] >= 0) {
			s.ordered = false
		}
		s.w += w[i]
		s.wx = mulAddIf(b, property, w[i], v, s.wx)
	}
	return s
}

// fitOffset finds scale and minimum with the least weighted error. x has 16 or
// 32 numbers, w as many weights. Every better try moves the minimum from which
// the following ones count. Reference: make_qkx2_quants and make_qkx3_quants, which agree where weights are given.
func fitOffset[B build](s offsetSearch, x, w []float32) offsetFit {
	var b B
	sums := sumOffset[B](x, w)
	low, high := sums.lowest, sums.high
	if low > 0 {
		low = 0
	}
	if high == low {
		return offsetFit{minimum: -low, limit: s.limit, zero: true}
	}
	w = w[:len(x)]
	var buffer groupCodes
	codes, table := buffer[:len(x)], s.table
	inverse := float32(s.limit) / (high - low)
	fit := offsetFit{scale: 1 / inverse, minimum: -low, inverse: inverse, low: low, limit: s.limit}
	fillWide[B](&buffer, s.limit, inverse, low, x)
	least := offsetError[B](fit.scale, low, codes, x, w, s.absolute, never)
	for try := range s.tries + 1 {
		inverse := (mulAdd[B](s.step, float32(try), s.first) + float32(s.limit)) / (high - low)
		changed := false
		if magnitude(float32(inverse*(sums.lowest-low))) < 60 && magnitude(float32(inverse*(high-low))) < 60 {
			changed = fill[B](&buffer, table, inverse, low, x)
		} else {
			changed = fillWide[B](&buffer, s.limit, inverse, low, x)
		}
		if !changed && try > 0 {
			continue
		}
		var sumL, sumL2, sumXL float32
		for i, c := range codes {
			code := math.Float32frombits(c)
			weighted := float32(w[i] * code)
			sumL = mulAddIf(b, fuseAll, w[i], code, sumL)
			sumL2 = mulAddIf(b, fuseSearch, weighted, code, sumL2)
			sumXL = mulAddIf(b, fuseSearch, weighted, x[i], sumXL)
		}
		determinant := mulSub[B](sums.w, sumL2, sumL, sumL)
		if !(determinant > 0) {
			continue
		}
		scale := scaleNumerator[B](sums.w, sumXL, sums.wx, sumL) / determinant
		minimum := mulSub[B](sumL2, sums.wx, sumL, sumXL) / determinant
		if minimum > 0 {
			minimum, scale = 0, sumXL/sumL2
		}
		enough := least
		if !sums.ordered {
			enough = never
		}
		if e := offsetError[B](scale, minimum, codes, x, w, s.absolute, enough); e < least {
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

// never is reached by no error.
var never = float32(math.NaN())

// offsetError gives the weighted error of a scale and an offset for given codes. It
// may stop as soon as the error has reached enough.
func offsetError[B build](scale, offset float32, codes []uint32, x, w []float32, absolute bool, enough float32) (sum float32) {
	for len(codes) >= 8 && len(x) >= 8 && len(w) >= 8 && !(sum >= enough) {
		if absolute {
			for i := range 8 {
				sum = mulAdd[B](w[i], magnitude(mulAdd[B](scale, math.Float32frombits(codes[i]), offset)-x[i]), sum)
			}
		} else {
			for i := range 8 {
				diff := mulAdd[B](scale, math.Float32frombits(codes[i]), offset) - x[i]
				sum = mulAdd[B](w[i], float32(diff*diff), sum)
			}
		}
		codes, x, w = codes[8:], x[8:], w[8:]
	}
	return sum
}
