package mlx

import (
	"fmt"
	"math"

	"github.com/weighmaster/weighmaster/kernels/number"
)

// judge collects what the groups of one matrix are to the source's.
type judge struct {
	scheme Scheme
	number number.Type
	own    group // scratch

	groups  uint64
	exact   map[backend]uint64
	follow  uint64 // recomputed by a backend, up to ties
	outside uint64
	// first group beyond the bound, and first one that does not follow
	firstOutside, firstOther int64

	ofBound, steps      float64
	sumError, sumSource float64

	top   float32 // the largest weight of an expert so far
	loose bool    // a global scale that is not the largest weight
}

func newJudge(t Tensor, n number.Type) *judge {
	return &judge{scheme: *t.Scheme, number: n, own: group{codes: make([]byte, t.Scheme.Group)}, exact: map[backend]uint64{}, firstOutside: -1, firstOther: -1}
}

// group judges one group against its source's weights, which are first rounded
// to the type that they had when they were quantized.
func (j *judge) group(g *group, w []float32, index uint64, r *matrixReader) error {
	for i, x := range w {
		w[i] = j.number.Round(x)
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
		ofBound, steps = boundFloats(g, w, j.scheme, j.number, factor)
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
		q := float64(g.codes[i])
		if j.scheme.Mode != Affine {
			q = float64(j.scheme.value(g.codes[i]))
		}
		e := float64(x) - float64(scale*q) - bias
		j.sumError += float64(e * e)
		j.sumSource += float64(float64(x) * float64(x))
	}
	return nil
}

func (j *judge) affine(g *group, w []float32) bool {
	follows := false
	for _, b := range backends(Affine) {
		b.affine(&j.own, w, j.scheme.Bits, j.number)
		if sameBits(g.scale, j.own.scale) && sameBits(g.bias, j.own.bias) && string(g.codes) == string(j.own.codes) {
			j.exact[b]++
			follows = true
		}
	}
	for _, b := range backends(Affine) {
		follows = follows || b.closeAffine(g, w, j.scheme.Bits, j.number)
	}
	return follows
}

func (j *judge) floats(g *group, w []float32, global float32) bool {
	follows := false
	encode := float32(globalUnit / global)
	for _, b := range backends(j.scheme.Mode) {
		b.floats(&j.own, w, j.scheme, j.number, encode)
		if g.code == j.own.code && string(g.codes) == string(j.own.codes) {
			j.exact[b]++
			follows = true
		}
		follows = follows || b.closeFloats(g, &j.own, w, j.scheme, j.number, float64(global)/globalUnit)
	}
	return follows
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
	for _, b := range backends(j.scheme.Mode) {
		if recomputed == nil && j.exact[b] == j.groups {
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
