package quant

import "math"

// A build says in the bits of its length which products a compiler fuses into the
// sum that follows them, that is, adds without rounding them first. The quantizers are generic over it,
// so that one text serves every build: the compiler makes one copy of a function
// for each length and removes the branches that the length decides.
type build interface {
	plainBuild | gccBuild | gccZenBuild | gccARMBuild | clangBuild | clangX86Build
}

type (
	plainBuild    [0]struct{} // every product is rounded before it is added
	gccBuild      [fuse | fuseNearest | fuseWeighted | fuseSearch]struct{}
	gccZenBuild   [fuse | fuseNearest | fuseSearch]struct{}
	gccARMBuild   [fuse | fuseNearest | fuseWeighted | fuseSearch | fuseSquares | fuseSquaresIQ4 | saturate]struct{}
	clangBuild    [fuse | fuseWeighted | fuseSquares | fuseStatements | saturate]struct{}
	clangX86Build [fuse | fuseWeighted | fuseSearch | fuseSquares | fuseSquaresIQ4 | fuseStatements | fuseAll | saturateByte]struct{}
)

// What a build fuses, beyond which only the sums that every fusing build fuses remain.
const (
	fuse           = 1 << iota // any at all
	fuseNearest                // into the magic number that rounds to integers
	fuseWeighted               // Σ w·x over groups of 32
	fuseSquares                // Σ x², which only sources of more than twelve significant bits show
	fuseSquaresIQ4             // the same in the IQ4 types
	fuseSearch                 // sums of a search that clang vectorizes for arm64
	fuseStatements             // per statement, as clang does: also in loops that gcc vectorizes
	fuseAll                    // both: sums that either compiler vectorizes, and products used twice
	saturate                   // not a product: numbers that no integer holds convert to the nearest one, as on arm64
	saturateByte               // nor this: the same for what no byte holds, in clang's vectors for x86-64
)

// has says whether a build has one of the properties.
func has[B build](property int) bool {
	var b B
	return len(b)&property != 0
}

// mulAdd gives x·y + z. Every fusing compiler rounds it once.
func mulAdd[B build](x, y, z float32) float32 {
	var b B
	if len(b) == 0 {
		return float32(x*y) + z
	}
	return fused(x, y, z)
}

// mulAddIf gives x·y + z, rounded once where the build has the property. (The
// build is an argument, unlike above, for the compiler's measure of what it inlines.)
func mulAddIf[B build](b B, property int, x, y, z float32) float32 {
	if len(b)&property == 0 {
		return float32(x*y) + z
	}
	return fused(x, y, z)
}

// mulSub gives a·b − c·d. Every fusing compiler takes the first product unrounded.
func mulSub[B build](a, b, c, d float32) float32 {
	return mulAdd[B](a, b, -float32(c*d))
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
