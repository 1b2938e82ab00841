package quant

import "math"

// A build says in its length which products a compiler fuses into the sum that
// follows them. The quantizers are generic over it, so that one text serves every
// build: the compiler makes one copy of a function for each length and removes
// the branches that the length decides.
type build interface {
	plainBuild | gccBuild | clangBuild
}

type (
	plainBuild [0]struct{} // every product is rounded before it is added
	gccBuild   [1]struct{}
	clangBuild [2]struct{}
)

// mulAdd gives x·y + z. Both fusing compilers round it once.
func mulAdd[B build](x, y, z float32) float32 {
	var b B
	if len(b) == 0 {
		return float32(x*y) + z
	}
	return fused(x, y, z)
}

// fused gives x·y + z rounded once, to nearest with ties to even, as one FMA
// instruction on float32 does.
//
// The product of two float32 numbers is exact in float64. Their sum with z is
// not, and rounding it twice can go wrong only where the float64 sum stands in the
// middle between two float32 numbers, which shows in its low bits.
func fused(x, y, z float32) float32 {
	product, addend := float64(float64(x)*float64(y)), float64(z)
	sum := product + addend
	if math.Float64bits(sum)&(1<<28-1) == 0 {
		return float32(roundToOdd(sum, product, addend))
	}
	return float32(sum)
}

// roundToOdd replaces sum, the rounded x + y, by its neighbour in the direction
// of the error if that was not zero and sum is even. Rounding that again, to at
// least two bits fewer, is the rounding of the exact sum.
func roundToOdd(sum, x, y float64) float64 {
	// The error of a sum, exactly (Knuth): both parts as they went into the sum.
	back := sum - x
	err := (x - (sum - back)) + (y - back)
	bits := math.Float64bits(sum)
	if bits&1 != 0 || err == 0 || err != err {
		return sum
	}
	if (err > 0) == (sum > 0) {
		return math.Float64frombits(bits + 1)
	}
	return math.Float64frombits(bits - 1)
}

// mulSub gives a·b − c·d. Fusing compilers take the first product unrounded.
func mulSub[B build](a, b, c, d float32) float32 {
	return mulAdd[B](a, b, -float32(c*d))
}
