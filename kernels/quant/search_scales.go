package quant

// fitScales quantizes the scales, or the minima, of the sub-blocks of a block,
// weighted with the sub-blocks' weights: x ≈ scale·code, code ≤ limit. It is used with an importance
// matrix. len(x) ≤ 16; codes and w have as many numbers. A negative x gets a code that wraps
// in its byte, as in the reference: make_qp_quants.
func fitScales[B build](limit int32, x []float32, codes []byte, w []float32) float32 {
	var b B
	var high float32
	for _, v := range x {
		if !(high > v) {
			high = v
		}
	}
	if high < tiny {
		clear(codes)
		return 0
	}
	inverse := float32(limit) / high
	scale := 1 / inverse
	var least float32
	for i, v := range x {
		codes[i] = byte(nearestProduct[B](inverse, v))
		diff := mulAdd[B](-scale, float32(codes[i]), v)
		least = mulAddIf(b, fuseSearch, float32(w[i]*diff), diff, least)
	}
	for step := int32(-4); step <= 4; step++ {
		if step == 0 {
			continue
		}
		tried := mulAdd[B](0.1, float32(step), float32(limit)) / high
		scale := 1 / tried
		var sum float32
		for i, v := range x {
			code := min(limit, nearestProduct[B](tried, v))
			diff := mulAdd[B](-scale, float32(code), v)
			sum = mulAddIf(b, fuseSearch, float32(w[i]*diff), diff, sum)
		}
		if sum < least {
			least, inverse = sum, tried
		}
	}
	var sumLX, sumL2 float32
	for i, v := range x {
		code := min(limit, nearestProduct[B](inverse, v))
		codes[i] = byte(code)
		l := float32(code)
		sumLX = mulAddIf(b, fuseSearch, float32(w[i]*v), l, sumLX)
		sumL2 = mulAddIf(b, fuseSearch, float32(w[i]*l), l, sumL2)
	}
	sumLX, sumL2 = improveScales[B](limit, x, codes, w, sumLX, sumL2)
	if sumL2 > 0 {
		return sumLX / sumL2
	}
	return 0
}

// improveScales moves single codes as long as that lowers the error, five rounds at most.
func improveScales[B build](limit int32, x []float32, codes []byte, w []float32, sumLX, sumL2 float32) (lx, l2 float32) {
	for range 5 {
		changed := false
		for i, v := range x {
			old := float32(codes[i])
			lx := mulAdd[B](-float32(w[i]*v), old, sumLX)
			l2 := mulAdd[B](-float32(w[i]*old), old, sumL2)
			if !(lx > 0 && l2 > 0) {
				continue
			}
			code := min(limit, nearest(float32(v*l2)/lx))
			if code == int32(codes[i]) {
				continue
			}
			l := float32(code)
			lx = mulAdd[B](float32(w[i]*v), l, lx)
			l2 = mulAdd[B](float32(w[i]*l), l, l2)
			if float32(float32(lx*lx)*sumL2) > float32(float32(sumLX*sumLX)*l2) {
				codes[i], sumLX, sumL2, changed = byte(code), lx, l2, true
			}
		}
		if !changed {
			break
		}
	}
	return sumLX, sumL2
}
