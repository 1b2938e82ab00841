package number

import (
	"math"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// TestEveryNumberComesBack: what was decoded is encoded to the same bytes and is its own rounding.
func TestEveryNumberComesBack(t *testing.T) {
	for _, typ := range []Type{F16, BF16} {
		for bits := range 1 << 16 {
			raw := []byte{byte(bits), byte(bits >> 8)}
			x := make([]float32, 1)
			typ.Decode(x, raw)
			if x[0] != x[0] {
				continue
			}
			if got := typ.Append(nil, x[0]); string(got) != string(raw) || typ.Round(x[0]) != x[0] {
				t.Fatalf("%s %#x: got %#x, want the same", typ.DType, bits, got)
			}
		}
	}
}

// TestRoundingStaysWithinHalfTheSpacing, and reaches it.
func TestRoundingStaysWithinHalfTheSpacing(t *testing.T) {
	for _, typ := range []Type{F32, F16, BF16} {
		reached := 0.0
		state := uint32(1)
		for range 200_000 {
			state = state*1664525 + 1013904223
			x := math.Float32frombits(state &^ (1 << 30)) // magnitudes below 2
			r := typ.Round(x)
			if e := math.Abs(float64(r) - float64(x)); e > typ.HalfSpacing(float64(r)) {
				t.Fatalf("%s: %v became %v, an error of %v beyond %v", typ.DType, x, r, e, typ.HalfSpacing(float64(r)))
			} else if e > 0 {
				reached = max(reached, e/typ.HalfSpacing(float64(r)))
			}
		}
		if typ != F32 && reached < 0.99 {
			t.Errorf("%s: got at most %v of half the spacing, want nearly all of it", typ.DType, reached)
		}
	}
}

func TestOtherTypesAreNone(t *testing.T) {
	for _, d := range []safetensors.DType{safetensors.I32, safetensors.F64, safetensors.F8E4M3, ""} {
		if _, ok := Of(d); ok {
			t.Errorf("%s: got a type, want none", d)
		}
	}
}
