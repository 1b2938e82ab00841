package quant

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The searches as ggml writes them, without lookups, skipped tries and early stops.

func referenceSigned(limit int32, x, w []float32) (scale float32, codes []byte) {
	codes = make([]byte, len(x))
	top, size := peak(x)
	if size < tiny {
		return 0, codes
	}
	try := func(inverse float32) (lx, l2 float32) {
		for i, v := range x {
			l := float32(clamp(nearest(float32(inverse*v)), -limit, limit-1))
			lx += float32(float32(w[i]*v) * l)
			l2 += float32(float32(w[i]*l) * l)
		}
		return lx, l2
	}
	take := func(inverse float32) {
		for i, v := range x {
			codes[i] = byte(clamp(nearest(float32(inverse*v)), -limit, limit-1) + limit)
		}
	}
	inverse := float32(-limit) / top
	lx, l2 := try(inverse)
	take(inverse)
	if l2 != 0 {
		scale = lx / l2
	}
	best := float32(scale * lx)
	for step := -9; step <= 9; step++ {
		if step == 0 {
			continue
		}
		inverse := -(float32(limit) + float32(0.1*float32(step))) / top
		if lx, l2 := try(inverse); l2 > 0 && float32(lx*lx) > float32(best*l2) {
			take(inverse)
			scale = lx / l2
			best = float32(scale * lx)
		}
	}
	return scale, codes
}

func referenceOffset(s offsetSearch, x, w []float32) (scale, minimum float32, codes []byte) {
	codes, tried := make([]byte, len(x)), make([]byte, len(x))
	low, high, sumW, sumX := x[0], x[0], w[0], float32(w[0]*x[0])
	for i := 1; i < len(x); i++ {
		if x[i] < low {
			low = x[i]
		}
		if x[i] > high {
			high = x[i]
		}
		sumW += w[i]
		sumX += float32(w[i] * x[i])
	}
	if low > 0 {
		low = 0
	}
	if high == low {
		return 0, -low, codes
	}
	fill := func(codes []byte, inverse float32) {
		for i, v := range x {
			codes[i] = byte(clamp(nearest(float32(inverse*(v-low))), 0, s.limit))
		}
	}
	failure := func(scale, offset float32, codes []byte) (sum float32) {
		for i, v := range x {
			diff := float32(scale*float32(codes[i])) + offset - v
			if s.absolute {
				diff = magnitude(diff)
			} else {
				diff = float32(diff * diff)
			}
			sum += float32(w[i] * diff)
		}
		return sum
	}
	inverse := float32(s.limit) / (high - low)
	scale = 1 / inverse
	fill(codes, inverse)
	least := failure(scale, low, codes)
	for try := range s.tries + 1 {
		fill(tried, (s.first+float32(s.step*float32(try))+float32(s.limit))/(high-low))
		var l, l2, xl float32
		for i, c := range tried {
			wl := float32(w[i] * float32(c))
			l += wl
			l2 += float32(wl * float32(c))
			xl += float32(wl * x[i])
		}
		d := float32(sumW*l2) - float32(l*l)
		if !(d > 0) {
			continue
		}
		newScale := (float32(sumW*xl) - float32(sumX*l)) / d
		newLow := (float32(l2*sumX) - float32(l*xl)) / d
		if newLow > 0 {
			newLow, newScale = 0, xl/l2
		}
		if e := failure(newScale, newLow, tried); e < least {
			copy(codes, tried)
			least, scale, low = e, newScale, newLow
		}
	}
	return scale, -low, codes
}

func same(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

// agree compares the searches with the reference on one group.
func agree(t *testing.T, x, w []float32) {
	t.Helper()
	for _, limit := range []int32{4, 8, 16, 32} {
		scale, codes := referenceSigned(limit, x, w)
		fit := fitSigned[plainBuild](limit, x, w)
		got := make([]byte, len(x))
		signedRaw[plainBuild](fit, got, x)
		if !same(fit.scale, scale) || string(got) != string(codes) {
			t.Fatalf("signed, limit %d:\nx %v\nw %v\ngot  %g %v\nwant %g %v", limit, x, w, fit.scale, got, scale, codes)
		}
	}
	for _, s := range []offsetSearch{searchQ2K, searchQ2KMatrix, searchQ4K, searchQ4KMatrix, searchQ5K, searchQ5KMatrix} {
		scale, minimum, codes := referenceOffset(s, x, w)
		fit := fitOffset[plainBuild](s, x, w)
		got := make([]byte, len(x))
		offsetCodes[plainBuild](fit, got, x)
		if !same(fit.scale, scale) || !same(fit.minimum, minimum) || string(got) != string(codes) {
			t.Fatalf("offset, %+v:\nx %v\nw %v\ngot  %g %g %v\nwant %g %g %v", s, x, w, fit.scale, fit.minimum, got, scale, minimum, codes)
		}
	}
}

// TestShortcutsChangeNothing compares the searches with the reference on groups of
// many shapes: normal, tight around a far offset, few distinct values, negative weights.
func TestShortcutsChangeNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for round := range 4000 {
		n := 16 << (round % 2)
		x, w := make([]float32, n), make([]float32, n)
		offset := float32(0)
		if round%5 == 1 {
			offset = float32(r.NormFloat64() * 100)
		}
		for i := range x {
			x[i] = float32(r.NormFloat64()*math.Exp(r.NormFloat64())) + offset
			switch round % 7 {
			case 2:
				x[i] = float32(r.IntN(4))
			case 3:
				x[i] = -magnitude(x[i]) - 1000
			}
			w[i] = float32(r.ExpFloat64())
			if round%11 == 3 && r.IntN(4) == 0 {
				w[i] = -w[i]
			}
		}
		agree(t, x, w)
	}
	for range 4000 { // any numbers at all
		x, w := make([]float32, 32), make([]float32, 32)
		for _, p := range [][]float32{x, w} {
			for i := range p {
				for p[i] = math.Float32frombits(r.Uint32()); !finite(p[i : i+1]); {
					p[i] = math.Float32frombits(r.Uint32())
				}
			}
		}
		agree(t, x, w)
	}
}
