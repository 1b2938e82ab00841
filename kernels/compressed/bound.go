package compressed

import (
	"math"
)

// clipped is how far beyond the largest code a weight may lie: scale searches
// (mean square error, importance) shrink a block's scale by at most a half.
const clipped = 2

// quotient is the largest relative rounding of weight over scale before it is
// converted: the tools divide in the weights' type, BF16 at worst.
const quotient = 1.0 / 256

// Scales are the tool's choice, and every code follows from a scale that is far too
// large: all are zero. So the scales of codes that count as recomputed are bounded too.
const (
	// normal is the smallest normal number of E4M3: weights that share a scale of fp8 and all lie below it have lost bits to the scale.
	normal = 1.0 / 64
	// spread is how many times what a matrix needs its global scale of nvfp4 may be: tools share one between matrices that are fused.
	spread = 16
	// lost is the relative error from which a matrix says too little about the source's to be made from it.
	lost = 0.5
)

// usual bounds the relative error of a matrix whose scales fit it. Folders of both tools have 0.027 and 0.093.
func (f Format) usual() float64 {
	if f == FP8 {
		return 0.06
	}
	return 0.2
}

// largest is the code of the largest magnitude.
func (f Format) largest() byte {
	if f == FP8 {
		return 0x7E
	}
	return 7
}

// sign is the bit of a code's sign.
func (f Format) sign() byte {
	if f == FP8 {
		return 0x80
	}
	return 8
}

// cell is the interval of magnitudes that round to a code, in units of the scale.
type cell struct{ low, value, high float64 }

// cells are those of all codes of a format, by code. A code that is no number
// has a cell that holds nothing.
func (f Format) cells() []cell {
	sign, top := f.sign(), f.largest()
	all := make([]cell, int(sign)*2)
	for code := range all {
		m := byte(code) &^ sign
		c := cell{value: float64(f.value(m)), high: math.NaN()}
		c.low = c.value
		if m > 0 {
			c.low = (float64(f.value(m-1)) + c.value) / 2
		}
		switch {
		case m < top:
			c.high = (c.value + float64(f.value(m+1))) / 2
		case m == top:
			c.high = c.value * clipped
		}
		all[code] = c
	}
	return all
}

// judge collects the errors of one matrix.
//
// A weight w with scale s and code q is within the bound where w/s lies in q's
// cell, the midpoints to the neighbouring codes, widened by the rounding of the
// quotient; beyond the largest code up to twice that code. The signs have to
// agree, but for zero. A block whose scale became zero holds weights that round
// to no scale.
//
// Folders of both tools (BF16, scales by extremes) reach 0.94 to 0.996 of the
// bound and never pass it.
type judge struct {
	format              Format
	cells               []cell
	outside, first      int64 // weights beyond the bound
	saturated           int64 // weights beyond the largest code by more than its own spacing
	nearest             int64 // weights whose code is the nearest in float32
	loose               int64 // runs whose scale is far more than they need: see span
	top                 float32
	vanishing           float64
	ofBound             float64
	sumError, sumSource float64
}

// merge adds what another judge of the same matrix counted.
func (j *judge) merge(o *judge) {
	j.outside += o.outside
	if j.first < 0 || o.first >= 0 && o.first < j.first {
		j.first = o.first
	}
	j.saturated += o.saturated
	j.nearest += o.nearest
	j.loose += o.loose
	j.top = max(j.top, o.top)
	j.ofBound = max(j.ofBound, o.ofBound)
	j.sumError += o.sumError
	j.sumSource += o.sumSource
}

func newJudge(f Format) *judge { return &judge{format: f, cells: f.cells(), first: -1} }

// span judges weights that share a scale, the product of the block's and the
// global one.
func (j *judge) span(codes []byte, w []float32, block, global float64, at int64) {
	sign, scale := j.format.sign(), block*global
	j.vanishing = 0
	if j.format == NVFP4 { // what rounds to a zero of E4M3
		j.vanishing = 6 * global / 1024 * (1 + quotient)
	}
	top := float32(0)
	for i, x := range w {
		c := j.cells[codes[i]]
		top = max(top, x, -x)
		value := c.value * scale
		y := math.Abs(float64(x))
		if codes[i]&sign != 0 {
			value = -value
		}
		e := math.Abs(float64(x) - value)
		j.sumError += float64(e * e)
		j.sumSource += float64(y * y)
		if !(j.add(c, y, scale, c.value == 0 || x == 0 || math.Signbit(float64(x)) == (codes[i]&sign != 0))) {
			j.outside++
			if j.first < 0 {
				j.first = at + int64(i)
			}
		}
	}
	j.top = max(j.top, top)
	switch {
	case top == 0:
	case j.format == NVFP4 && float64(top) < 3*scale && block > 1.0/512, j.format == FP8 && float64(top) < normal*scale:
		j.loose++
	}
}

// add judges one magnitude; same tells that the signs agree.
func (j *judge) add(c cell, magnitude, scale float64, same bool) bool {
	if scale == 0 { // for weights alone that vanish beside the smallest scale
		if magnitude > 0 {
			j.ofBound = max(j.ofBound, magnitude/j.vanishing)
		}
		return magnitude <= j.vanishing
	}
	y := magnitude / scale
	if !same {
		y = -y
	}
	room, off := c.high*(1+quotient)-c.value, y-c.value
	if off < 0 {
		room, off = c.value-c.low*(1-quotient), -off
		if c.value == 0 { // either sign
			room = c.high * (1 + quotient)
		}
	}
	if c.value == float64(j.format.value(j.format.largest())) && y > c.value*(1+1.0/8) {
		j.saturated++
	}
	if y >= c.low && y <= c.high {
		j.nearest++
	}
	if off == 0 {
		return true
	}
	if !(room > 0) {
		j.ofBound = math.Inf(1)
		return false
	}
	j.ofBound = max(j.ofBound, off/room)
	return off <= room
}
