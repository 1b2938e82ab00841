package llama

import (
	"math/rand/v2"
	"runtime"
	"testing"
)

func numbers(n int, seed uint64) []float64 {
	r := rand.New(rand.NewPCG(seed, 7))
	x := make([]float64, n)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	return x
}

func TestLinearIsTheSameForEveryThreadCount(t *testing.T) {
	const in, outs, tokens = 131, 97, 13
	w, x := numbers(in*outs, 1), numbers(in*tokens, 2)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var first []float64
	for _, procs := range []int{1, 2, 3, 8} {
		runtime.GOMAXPROCS(procs)
		y := make([]float64, outs*tokens)
		linear(y, outs, 0, w, x, in)
		for i := range y {
			if want := dot(w[i%outs*in:][:in], x[i/outs*in:][:in]); y[i] != want {
				t.Fatalf("%d processors: output %d: got %v, want the single dot product %v", procs, i, y[i], want)
			}
		}
		if first == nil {
			first = y
		}
	}
}

func BenchmarkLinear(b *testing.B) {
	const in, outs, tokens = 256, 512, 512
	w, x, y := numbers(in*outs, 1), numbers(in*tokens, 2), make([]float64, outs*tokens)
	b.SetBytes(in * outs * tokens * 8)
	for b.Loop() {
		linear(y, outs, 0, w, x, in)
	}
}
