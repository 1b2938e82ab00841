package mlx

import (
	"math"

	"github.com/weighmaster/weighmaster/kernels/number"
)

// group is one quantized group: codes, and scale and bias as their stored
// numbers. For the modes of floats the scale is the byte and there is no bias.
type group struct {
	codes       []byte
	scale, bias float32
	code        byte // of the scale, modes of floats
}

// backend is one of MLX's own implementations of mlx.core.quantize. They differ
// in ties, in groups without a weight above zero, and in the modes of floats.
type backend struct {
	name string
	// gpu is the arithmetic of mlx/backend/metal and mlx/backend/cuda, else that
	// of the CPU, the only one that tests run.
	gpu bool
	// nearest is the rounding of E8M0 scales in older releases (MLX 0.30.0); 0.32.2 and 0.32.4 round up.
	nearest bool
}

var (
	cpu     = backend{name: "cpu"}
	gpu     = backend{name: "gpu", gpu: true}
	cpuPast = backend{name: "cpu, scales to nearest", nearest: true}
	gpuPast = backend{name: "gpu, scales to nearest", gpu: true, nearest: true}
)

// backends are those that differ for a mode, the likeliest first.
func backends(m Mode) []backend {
	if m == MXFP4 || m == MXFP8 {
		return []backend{cpu, gpu, cpuPast, gpuPast}
	}
	return []backend{cpu, gpu}
}

// smallestScale is the least magnitude that MLX gives a scale.
const smallestScale = float32(1e-7)

// extremes finds the least and the greatest weight.
func extremes(w []float32) (low, high float32) {
	low, high = float32(math.Inf(1)), float32(math.Inf(-1))
	for _, x := range w {
		if x > high {
			high = x
		}
		if x < low {
			low = x
		}
	}
	return low, high
}

func (b backend) rint(x float32) float32 {
	if b.gpu {
		return float32(math.Round(float64(x)))
	}
	return float32(math.RoundToEven(float64(x)))
}

// edge gives the end of larger magnitude, where codes start, the unrounded
// scale of float arithmetic, whose sign points to the other end, and their
// ratio as a whole number. The GPU starts its search for the greatest weight at zero.
func (b backend) edge(low, high float32, bits int) (edge, scale, q0 float32) {
	if b.gpu && !(high > 0) {
		high = 0
	}
	n := float32(int(1)<<bits - 1)
	scale = max(float32(float32(high-low)/n), smallestScale)
	edge = low
	if !(abs(low) > abs(high)) {
		edge, scale = high, -scale
	}
	return edge, scale, b.rint(edge / scale)
}

// parameters are the scale and the bias of a group, before they are stored. One
// bit stands for the least and the greatest weight.
func (b backend) parameters(low, high float32, bits int) (scale, bias float32) {
	if bits == 1 {
		if b.gpu && !(high > 0) {
			high = 0
		}
		return max(high-low, smallestScale), low
	}
	edge, scale, q0 := b.edge(low, high, bits)
	if q0 != 0 {
		return edge / q0, edge
	}
	return scale, 0
}

// affine recomputes a group of weights that already have the type t.
func (b backend) affine(g *group, w []float32, bits int, t number.Type) {
	low, high := extremes(w)
	scale, bias := b.parameters(low, high, bits)
	n := float32(int(1)<<bits - 1)
	for i, x := range w {
		q := b.rint(float32(x-bias) / scale)
		g.codes[i] = byte(min(max(q, 0), n))
	}
	g.scale, g.bias = t.Round(scale), t.Round(bias)
}

// codesMatch compares stored codes with those of both backends, which differ in
// ties alone where scale and bias are the same.
func codesMatch(codes []byte, w []float32, bits int, scale, bias float32) (onCPU, onGPU bool) {
	onCPU, onGPU = true, true
	n := float32(int(1)<<bits - 1)
	codes = codes[:len(w)]
	for i, x := range w {
		y := float32(x-bias) / scale
		q := float32(math.RoundToEven(float64(y)))
		code := byte(min(max(q, 0), n))
		if y-q == 0.5 { // the GPU rounds away from zero
			onGPU = onGPU && codes[i] == byte(min(max(q+1, 0), n))
			onCPU = onCPU && codes[i] == code
		} else if codes[i] != code {
			return false, false
		}
	}
	return onCPU, onGPU
}

func abs(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// tieSlack is how far beyond half a step from its weight a code may lie, in
// steps, for another order of rounding than both backends': quotients of codes
// up to 255 within a few units in the last place of float32.
const tieSlack = 1.0 / 4096

// closeAffine tells whether a stored group is what the weights give, up to the
// rounding of ties: the bias is the edge, the scale is the edge over a whole
// number of steps within one unit of its last place, each code is within half
// a step of its weight, counted in the unrounded scale.
func (b backend) closeAffine(g *group, w []float32, bits int, t number.Type) bool {
	low, high := extremes(w)
	if bits == 1 {
		scale, bias := b.parameters(low, high, bits)
		return sameBits(g.bias, bias) && math.Abs(float64(g.scale)-float64(scale)) <= 3*t.HalfSpacing(float64(scale)) && codesFollow(g, w, bits, float64(scale), float64(bias))
	}
	edge, first, q0 := b.edge(low, high, bits)
	ratio := float64(edge) / float64(first)
	for _, steps := range []float64{float64(q0), math.Floor(ratio), math.Ceil(ratio)} {
		if math.Abs(ratio-steps) > 0.5+tieSlack {
			continue
		}
		scale, bias := float64(first), 0.0
		if steps != 0 {
			scale, bias = float64(edge)/steps, float64(edge)
		}
		if float64(g.bias) != bias || math.Abs(float64(g.scale)-scale) > 3*t.HalfSpacing(scale) {
			continue
		}
		if codesFollow(g, w, bits, scale, bias) {
			return true
		}
	}
	return false
}

func codesFollow(g *group, w []float32, bits int, scale, bias float64) bool {
	n := float64(int(1)<<bits - 1)
	for i, x := range w {
		q := min(max((float64(x)-bias)/scale, 0), n)
		if !(math.Abs(q-float64(g.codes[i])) <= 0.5+tieSlack) {
			return false
		}
	}
	return true
}

// boundAffine gives the largest error of a group in units of what is allowed
// for its weight, and in steps.
//
// With s the stored scale, h the most that its storage rounded it by, n the
// largest code and q a weight's code, the weight may differ from s·q + bias by
//
//	(|s| + h)/2 + q·h     half a step, and the scale's rounding q times over
//	(|s| + h)/2           more beyond q = n: the unrounded scale can be short of
//	                      the group's other end, by at most one step in all
//
// The bias adds nothing: it is itself a weight of the group, in its own type.
// One step more is enough: the edge is the end of larger magnitude, thus at
// least n/2 steps of (max-min)/n from zero, and rounding that number to a whole
// one shrinks the step by a factor of at least 1 - 1/(n+1).
//
// mlx-lm's own folders (every width and group size, BF16, F16 and F32, on the
// CPU) reach more than 0.99 of the bound and never pass it.
func boundAffine(g *group, w []float32, bits int, t number.Type) (ofBound, steps float64) {
	s := math.Abs(float64(g.scale))
	h := t.HalfSpacing(s)
	n := byte(int(1)<<bits - 1)
	for i, x := range w {
		q := g.codes[i]
		allowed := (s+h)/2 + float64(float64(q)*h)
		e := float64(x) - float64(float64(g.scale)*float64(q)) - float64(g.bias)
		if q == n && (e > 0) == (g.scale > 0) {
			allowed += (s + h) / 2
		}
		allowed += float64(allowed * (1.0 / (1 << 20))) // the backend's float32 arithmetic
		if e = math.Abs(e); !(e <= ofBound*allowed) {
			ofBound = worse(ofBound, e/allowed)
		}
		if !(e <= steps*s) {
			steps = worse(steps, e/s)
		}
	}
	return ofBound, steps
}

// worse is the larger of two errors; one that is not a number is the worst.
func worse(a, b float64) float64 {
	if b > a || math.IsNaN(b) {
		if math.IsNaN(b) {
			return math.Inf(1)
		}
		return b
	}
	return a
}
