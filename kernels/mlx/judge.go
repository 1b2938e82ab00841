package mlx

import (
	"fmt"
	"math"

	"github.com/weighmaster/weighmaster/kernels/number"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// judge collects what the groups of one matrix are to the source's.
type judge struct {
	scheme Scheme
	number number.Type
	rounds bool  // the source has another type
	own    group // scratch

	values []float64 // of the codes, without scale
	cells  []cell    // of the codes, modes of floats

	groups  uint64
	exact   []uint64 // by backend, up to the first group that it does not give
	follow  uint64   // recomputed by a backend, up to ties
	outside uint64
	// first group beyond the bound, and first one that does not follow
	firstOutside, firstOther int64

	ofBound, steps      float64
	sumError, sumSource float64

	top   float32 // the largest weight of an expert so far
	loose bool    // a global scale that is not the largest weight
}

func newJudge(t Tensor, n number.Type, source safetensors.DType) *judge {
	j := &judge{rounds: n.DType != source, values: make([]float64, 1<<t.Scheme.Bits), scheme: *t.Scheme, number: n, own: group{codes: make([]byte, t.Scheme.Group)}, exact: make([]uint64, len(backends(t.Scheme.Mode))), firstOutside: -1, firstOther: -1}
	if t.Scheme.Mode != Affine {
		j.cells = t.Scheme.cells()
	}
	for code := range j.values {
		j.values[code] = float64(code)
		if t.Scheme.Mode != Affine {
			j.values[code] = float64(t.Scheme.value(byte(code)))
		}
	}
	return j
}

// group judges one group against its source's weights, which are first rounded
// to the type that they had when they were quantized.
func (j *judge) group(g *group, w []float32, index uint64, r *matrixReader) error {
	if j.rounds {
		for i, x := range w {
			w[i] = j.number.Round(x)
		}
	}
	j.groups++
	follows, ofBound, steps := false, 0.0, 0.0
	scale, bias := float64(g.scale), float64(g.bias)
	if j.scheme.Mode == Affine {
		follows = j.affine(g, w)
		ofBound, steps = boundAffine(g, w, j.scheme.Bits, j.number)
	} else {
		global, err := r.globalScale(index)
		if err != nil {
			return err
		}
		if r.global != nil {
			j.watch(w, global, index%r.perTop == 0, (index+1)%r.perTop == 0)
		}
		factor := float64(global) / globalUnit
		follows = j.floats(g, w, global)
		ofBound, steps = boundFloats(g, w, j.scheme, j.cells, j.number, factor)
		scale, bias = float64(j.scheme.scaleValue(g.code))*factor, 0
	}
	j.ofBound, j.steps = worse(j.ofBound, ofBound), worse(j.steps, steps)
	if follows {
		j.follow++
	} else if j.firstOther < 0 {
		j.firstOther = int64(index)
	}
	if !(ofBound <= 1) {
		j.outside++
		if j.firstOutside < 0 {
			j.firstOutside = int64(index)
		}
	}
	for i, x := range w {
		q := j.values[g.codes[i]]
		e := float64(x) - float64(scale*q) - bias
		j.sumError += float64(e * e)
		j.sumSource += float64(float64(x) * float64(x))
	}
	return nil
}

func (j *judge) affine(g *group, w []float32) bool {
	low, high := extremes(w)
	scale, bias := cpu.parameters(low, high, j.scheme.Bits)
	other, end := gpu.parameters(low, high, j.scheme.Bits)
	if sameBits(scale, other) && sameBits(bias, end) {
		if sameBits(g.scale, j.number.Round(scale)) && sameBits(g.bias, j.number.Round(bias)) {
			if onCPU, onGPU := codesMatch(g.codes, w, j.scheme.Bits, scale, bias); onCPU || onGPU {
				j.exact[0] += one(onCPU)
				j.exact[1] += one(onGPU)
				return true
			}
		}
	} else if j.eachAffine(g, w) {
		return true
	}
	for _, b := range backends(Affine) {
		if b.closeAffine(g, w, j.scheme.Bits, j.number) {
			return true
		}
	}
	return false
}

// eachAffine compares with the backends one by one.
func (j *judge) eachAffine(g *group, w []float32) bool {
	follows := false
	for i, b := range backends(Affine) {
		b.affine(&j.own, w, j.scheme.Bits, j.number)
		if sameBits(g.scale, j.own.scale) && sameBits(g.bias, j.own.bias) && string(g.codes) == string(j.own.codes) {
			j.exact[i]++
			follows = true
		}
	}
	return follows
}

func one(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func (j *judge) floats(g *group, w []float32, global float32) bool {
	follows := false
	encode := float32(globalUnit / global)
	top := float32(0)
	for _, x := range w {
		top = max(top, abs(x))
	}
	for i, b := range backends(j.scheme.Mode) {
		if follows && j.exact[i] < j.groups-1 {
			continue // it did not give all of the groups before
		}
		if b.scale(top, j.scheme, j.number, encode) != g.code {
			continue
		}
		b.floats(&j.own, w, j.scheme, j.number, encode)
		if string(g.codes) == string(j.own.codes) {
			j.exact[i]++
			follows = true
		}
		if !follows {
			ofBound, _ := boundFloats(g, w, j.scheme, j.cells, j.number, float64(global)/globalUnit)
			follows = ofBound <= 1 // up to ties: the scale is the backend's, each weight within its code's midpoints
		}
	}
	return follows
}

// merge adds what another judge of the same matrix counted.
func (j *judge) merge(o *judge) {
	j.groups += o.groups
	for i := range j.exact {
		j.exact[i] += o.exact[i]
	}
	j.follow += o.follow
	j.outside += o.outside
	j.firstOutside, j.firstOther = first(j.firstOutside, o.firstOutside), first(j.firstOther, o.firstOther)
	j.ofBound, j.steps = worse(j.ofBound, o.ofBound), worse(j.steps, o.steps)
	j.sumError += o.sumError
	j.sumSource += o.sumSource
	j.loose = j.loose || o.loose
}

// first is the lesser of two indices, of which -1 is none.
func first(a, b int64) int64 {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

// watch compares a global scale with the largest weight of its matrix.
func (j *judge) watch(w []float32, global float32, first, last bool) {
	if first {
		j.top = 0
	}
	for _, x := range w {
		j.top = max(j.top, abs(x))
	}
	j.loose = j.loose || last && j.top != global
}

func sameBits(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }

// conclude turns the counts of a matrix into its outcome.
func (c *comparison) conclude(t Tensor, j *judge, one *TensorResult) {
	one.Groups, one.Follow, one.Outside = j.groups, j.follow, j.outside
	one.OfBound, one.Steps = min(j.ofBound, 1e300), min(j.steps, 1e300)
	one.sumError, one.sumSource = j.sumError, j.sumSource
	if j.sumSource > 0 && !math.IsInf(j.sumError, 1) && !math.IsNaN(j.sumError) {
		one.RMS = math.Sqrt(j.sumError / j.sumSource)
	}
	where := func(group int64) string {
		at := uint64(group) * uint64(t.Scheme.Group)
		width := t.Shape[len(t.Shape)-1]
		return fmt.Sprintf("%s: row %d, weights [%d, %d)", t.Name, at/width, at%width, at%width+uint64(t.Scheme.Group))
	}
	var recomputed *backend
	for i, b := range backends(j.scheme.Mode) {
		if recomputed == nil && j.exact[i] == j.groups {
			recomputed = &b
		}
	}
	switch {
	case j.outside > 0:
		c.find(CheckRebuilt, where(j.firstOutside), fmt.Sprintf("%d of %d groups with a weight beyond the bound, the worst %.4g times", j.outside, j.groups, one.OfBound),
			"every weight within half a step of the source's, and the storage rounding of its scale")
	case j.loose:
		c.find(CheckRebuilt, t.Name+": global scale", "another number than the largest weight", "the largest weight of each expert")
	case recomputed != nil:
		one.Outcome, one.Backend = Recomputed, recomputed.name
	case j.follow == j.groups:
		one.Outcome = UpToTies
	case 2*j.follow >= j.groups:
		c.find(CheckRebuilt, where(j.firstOther), fmt.Sprintf("%d of %d groups that MLX's rounding does not give", j.groups-j.follow, j.groups),
			"all of them, as the others follow from the source")
	default:
		one.Outcome = Bounded
	}
}
