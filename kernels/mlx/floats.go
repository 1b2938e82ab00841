package mlx

import (
	"math"

	"github.com/weighmaster/weighmaster/kernels/lowfloat"
	"github.com/weighmaster/weighmaster/kernels/number"
)

// globalUnit is what a global scale counts in: 448·6, the largest E4M3 times
// the largest E2M1.
const globalUnit = 448 * 6

// value is the number of a code of one of the modes of floats.
func (s Scheme) value(code byte) float32 {
	if s.Mode == MXFP8 {
		return lowfloat.E4M3(code)
	}
	return lowfloat.E2M1(code)
}

// scaleValue is the number of a scale's byte, without a global scale.
func (s Scheme) scaleValue(code byte) float32 {
	if s.Mode == NVFP4 {
		return lowfloat.E4M3(code)
	}
	return lowfloat.E8M0(code)
}

// largest is the magnitude of the largest code.
func (s Scheme) largest() float32 {
	if s.Mode == MXFP8 {
		return 448
	}
	return 6
}

// scale gives the stored scale of a group whose largest magnitude is top.
// encode is 2688 over the matrix's global scale, or 1.
func (b backend) scale(top float32, s Scheme, t number.Type, encode float32) byte {
	if b.gpu {
		t = number.F32
	}
	ratio := t.Round(top / s.largest())
	if s.Mode == NVFP4 {
		return lowfloat.FromE4M3(float32(ratio * encode))
	}
	return b.exponent(ratio, t)
}

// floats recomputes a group in a mode of floats. The CPU rounds every quotient
// to the weights' type and breaks ties toward the code of smaller magnitude; the
// GPU multiplies by the inverse in float32 and breaks ties to even.
func (b backend) floats(g *group, w []float32, s Scheme, t number.Type, encode float32) {
	top := float32(0)
	for _, x := range w {
		top = max(top, abs(x))
	}
	g.code = b.scale(top, s, t, encode)
	if b.gpu {
		t = number.F32
	}
	scale := t.Round(s.scaleValue(g.code))
	for i, x := range w {
		var scaled float32
		switch {
		case b.gpu && scale == 0:
			scaled = float32(x * 0)
		case b.gpu:
			scaled = float32(x * (encode / scale))
		default:
			scaled = float32(t.Round(x/scale) * encode)
		}
		switch {
		case s.Mode == MXFP8:
			g.codes[i] = lowfloat.FromE4M3(scaled)
		case b.gpu:
			g.codes[i] = lowfloat.FromE2M1(scaled)
		default:
			g.codes[i] = nearestE2M1(scaled)
		}
	}
}

// exponent is the E8M0 code of a scale: the least power of two that is not
// below it, or, in older releases, the whole number nearest to its logarithm,
// which is itself rounded to the weights' type. A scale of zero is 2^0 on the CPU.
func (b backend) exponent(ratio float32, t number.Type) byte {
	if ratio == 0 {
		if b.gpu {
			return 0
		}
		return 127
	}
	e := float64(b.rint(t.Round(float32(math.Log2(float64(ratio))))))
	if !b.nearest {
		fraction, exponent := math.Frexp(float64(ratio)) // fraction in [1/2, 1)
		e = float64(exponent)
		if fraction == 0.5 {
			e--
		}
	}
	return byte(min(max(e, -127), 127) + 127)
}

// nearestE2M1 gives what the CPU's search of the table gives, the first code of
// the smallest distance: ties are toward zero, a zero is never negative, and
// what has no distance, a NaN or an infinity, is zero.
func nearestE2M1(x float32) byte {
	code := byte(0)
	for _, midpoint := range [...]float32{0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5} {
		if abs(x) > midpoint {
			code++
		}
	}
	switch {
	case abs(x) > math.MaxFloat32:
		return 0
	case x < 0 && code > 0:
		return code | 8
	}
	return code
}

// boundFloats gives the largest error of a group in units of what is allowed
// for its weight, and in steps, where a step is the spacing of the codes at the
// weight.
//
// With s the stored scale (times the global one), v the value of a weight's
// code, and u the rounding of a quotient in the weights' type, the weight lies
// within s·(1+u) times the midpoints between v and its neighbours. Beyond the
// largest code it is saturated, where the scale was rounded down:
//
//	E8M0   |w| <= s · largest · 2^(1/2 + the rounding of the logarithm)
//	E4M3   |w| <= (s + half the spacing of E4M3 at s) · largest
func boundFloats(g *group, w []float32, s Scheme, cells []cell, t number.Type, global float64) (ofBound, steps float64) {
	scale := float64(s.scaleValue(g.code)) * global
	limit := s.saturation(g.code, t) * global
	for i, x := range w {
		if scale == 0 || math.IsNaN(scale) {
			ofBound, steps = worse(ofBound, ratio(math.Abs(float64(x)), limit)), worse(steps, ratio(math.Abs(float64(x)), limit))
			continue
		}
		c := cells[g.codes[i]]
		v, low, high := c.value, c.low, c.high
		y := float64(x) / scale
		switch {
		case v == 0:
			y = math.Abs(y)
		case c.negative:
			y = -y
		}
		step := high - low
		if math.IsInf(high, 1) {
			step, high = 2*(v-low), limit/scale
		}
		room := high*(1+2*t.Unit()) - v
		if y < v {
			room = v - low*(1-2*t.Unit())
		}
		ofBound, steps = worse(ofBound, ratio(math.Abs(y-v), room)), worse(steps, math.Abs(y-v)/step)
	}
	return ofBound, steps
}

// ratio is an error over what is allowed; where nothing is, any error is infinite.
func ratio(e, allowed float64) float64 {
	switch {
	case e == 0:
		return 0
	case allowed <= 0:
		return math.Inf(1)
	}
	return e / allowed
}

// saturation is the largest weight that a scale is chosen for.
func (s Scheme) saturation(code byte, t number.Type) float64 {
	scale := float64(s.scaleValue(code))
	if s.Mode != NVFP4 {
		slack := 0.5 + t.HalfSpacing(math.Abs(float64(code)-127)+1) + 4*t.Unit()
		return scale * float64(s.largest()) * math.Exp2(slack)
	}
	next := float64(lowfloat.E4M3(min(code&0x7F+1, 0x7E)))
	return (scale + next) / 2 * float64(s.largest())
}

// cell holds the magnitude of a code and the magnitudes between which a weight
// over its scale rounds to it.
type cell struct {
	value, low, high float64
	negative         bool
}

// cells are those of all codes.
func (s Scheme) cells() []cell {
	sign, top := byte(8), byte(7)
	if s.Mode == MXFP8 {
		sign, top = 0x80, 0x7E
	}
	all := make([]cell, 2*int(sign))
	for code := range all {
		m := byte(code) &^ sign
		c := cell{value: float64(s.value(m)), high: math.Inf(1), negative: byte(code)&sign != 0}
		if m > 0 {
			c.low = (c.value + float64(s.value(m-1))) / 2
		}
		if m < top {
			c.high = (c.value + float64(s.value(m+1))) / 2
		}
		all[code] = c
	}
	return all
}
