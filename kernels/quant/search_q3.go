package quant

// fitQ3 finds the scale of a group of Q3_K weights without a matrix, and writes
// their codes shifted to 0 … 7: it starts at the scale that maps the peak to −4 and
// moves single codes as long as that lowers the error weighted with the squares of the weights.
// Reference: make_q3_quants.
func fitQ3[B build](x *[16]float32, codes *[16]byte) float32 {
	const limit = 4
	top, size := peak(x[:])
	if size < tiny {
		*codes = [16]byte{}
		return 0
	}
	inverse := -limit / top
	var signed [16]int32
	var sumLX, sumL2 float32
	for i, v := range x {
		code := clamp(nearestProduct[B](inverse, v), -limit, limit-1)
		signed[i] = code
		w, l := float32(v*v), float32(code)
		sumLX = mulAdd[B](float32(w*v), l, sumLX)
		sumL2 = mulAdd[B](float32(w*l), l, sumL2)
	}
	for range 5 {
		changed := false
		for i, v := range x {
			w, old := float32(v*v), float32(signed[i])
			lx := mulAdd[B](-float32(w*v), old, sumLX)
			if !(lx > 0) {
				continue
			}
			l2 := mulAdd[B](-float32(w*old), old, sumL2)
			code := clamp(nearest(float32(v*l2)/lx), -limit, limit-1)
			if code == signed[i] {
				continue
			}
			l := float32(code)
			lx = mulAdd[B](float32(w*v), l, lx)
			l2 = mulAdd[B](float32(w*l), l, l2)
			if l2 > 0 && float32(float32(lx*lx)*sumL2) > float32(float32(sumLX*sumLX)*l2) {
				signed[i], sumLX, sumL2, changed = code, lx, l2, true
			}
		}
		if !changed {
			break
		}
	}
	for i, code := range signed {
		codes[i] = byte(code + limit)
	}
	if sumL2 > 0 {
		return sumLX / sumL2
	}
	return 0
}
