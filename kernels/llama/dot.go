package llama

import (
	"runtime"
	"sync"
)

// dot is Σ a[i]·b[i] in one fixed order: four running sums over i mod 4, then
// (s0+s1)+(s2+s3), then the tail. Every product is rounded before it is added.
func dot(a, b []float64) float64 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float64
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += float64(a[i] * b[i])
		s1 += float64(a[i+1] * b[i+1])
		s2 += float64(a[i+2] * b[i+2])
		s3 += float64(a[i+3] * b[i+3])
	}
	s := (s0 + s1) + (s2 + s3)
	for ; i < len(a); i++ {
		s += float64(a[i] * b[i])
	}
	return s
}

// dot2 is dot(w, x) and dot(w, y), in the same order each, with one pass over w.
func dot2(w, x, y []float64) (float64, float64) {
	x, y = x[:len(w)], y[:len(w)]
	var s0, s1, s2, s3, t0, t1, t2, t3 float64
	i := 0
	for ; i+4 <= len(w); i += 4 {
		a, b, c, d := w[i], w[i+1], w[i+2], w[i+3]
		s0 += float64(a * x[i])
		t0 += float64(a * y[i])
		s1 += float64(b * x[i+1])
		t1 += float64(b * y[i+1])
		s2 += float64(c * x[i+2])
		t2 += float64(c * y[i+2])
		s3 += float64(d * x[i+3])
		t3 += float64(d * y[i+3])
	}
	s, t := (s0+s1)+(s2+s3), (t0+t1)+(t2+t3)
	for ; i < len(w); i++ {
		s += float64(w[i] * x[i])
		t += float64(w[i] * y[i])
	}
	return s, t
}

// linear computes y[t·stride + first + o] = Σ w[o·in + i]·x[t·in + i] for every token t
// and output o. Each output is one dot product in its fixed order, so the
// result does not depend on how the work was split.
func linear(y []float64, stride, first int, w, x []float64, in int) {
	tokens, outs := len(x)/in, len(w)/in
	parallel(outs, outs*tokens*in, func(from, to int) {
		for o := from; o < to; o++ {
			row := w[o*in : o*in+in]
			t := 0
			for ; t+2 <= tokens; t += 2 {
				y[t*stride+first+o], y[(t+1)*stride+first+o] = dot2(row, x[t*in:t*in+in], x[(t+1)*in:(t+1)*in+in])
			}
			if t < tokens {
				y[t*stride+first+o] = dot(row, x[t*in:t*in+in])
			}
		}
	})
}

// parallel splits 0…n−1 into one range per processor and waits for all. Work
// that is too small to split (in multiplications) runs in place.
func parallel(n, work int, do func(from, to int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	if workers <= 1 || work < 1<<16 {
		do(0, n)
		return
	}
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() { do(n*i/workers, n*(i+1)/workers) })
	}
	wg.Wait()
}
