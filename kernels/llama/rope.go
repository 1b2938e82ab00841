package llama

import "math"

// frequencies are the unscaled RoPE frequencies theta^(−2i/HeadDim), in radians per position.
func (c Config) frequencies() []float64 {
	f := make([]float64, c.HeadDim/2)
	for i := range f {
		f[i] = math.Pow(c.Theta, -float64(2*i)/float64(c.HeadDim))
	}
	return f
}

// rope holds the rotation of each plane at each position from 0: cos and sin, HeadDim/2 values a position.
type rope struct {
	freq     []float64
	cos, sin []float64
}

func newRope(c Config) *rope {
	r := &rope{freq: c.frequencies()}
	for i, f := range c.FreqFactors {
		r.freq[i] /= f
	}
	return r
}

// reach extends the table to the given number of positions.
func (r *rope) reach(positions int) {
	half := len(r.freq)
	for p := len(r.cos) / half; p < positions; p++ {
		for _, f := range r.freq {
			sin, cos := math.Sincos(float64(p) * f)
			r.cos, r.sin = append(r.cos, cos), append(r.sin, sin)
		}
	}
}

// rotate turns every head of x (a row of heads·HeadDim values) to position p,
// pairing value j with value j + HeadDim/2 (rotate-half).
func (r *rope) rotate(x []float64, p int) {
	half := len(r.freq)
	cos, sin := r.cos[p*half:(p+1)*half], r.sin[p*half:(p+1)*half]
	for h := 0; h < len(x); h += 2 * half {
		a, b := x[h:h+half], x[h+half:h+2*half]
		for j := range a {
			u, v := a[j], b[j]
			a[j] = float64(u*cos[j]) - float64(v*sin[j])
			b[j] = float64(v*cos[j]) + float64(u*sin[j])
		}
	}
}
