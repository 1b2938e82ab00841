package quant

import "math"

// magic is 1.5·2^23: added to a float32 of magnitude up to 2^22, it leaves the nearest
// integer, ties to even, in the low 23 bits of the sum.
const magic = 12582912

// nearest rounds as ggml's nearest_int does, also what is outside its range or not a number.
func nearest(f float32) int32 {
	return int32(math.Float32bits(f+magic)&0x7FFFFF) - 0x400000
}

// nearestProduct is nearest(x·y), where a fusing build adds the magic number
// to the unrounded product.
func nearestProduct[B build](x, y float32) int32 {
	var b B
	return int32(math.Float32bits(mulAddIf(b, fuseNearest, x, y, magic))&0x7FFFFF) - 0x400000
}

// clamp limits a code to low … high.
func clamp(code, low, high int32) int32 { return max(low, min(high, code)) }

// truncate converts to an integer towards zero. What an int32 does not hold becomes
// its smallest on x86-64; on arm64 the nearest that it holds, and 0 for a NaN.
func truncate[B build](f float32) int32 {
	switch {
	case f > -(1<<31) && f < 1<<31:
		return int32(f)
	case has[B](saturate) && f > 0:
		return math.MaxInt32
	case has[B](saturate) && f != f:
		return 0
	}
	return math.MinInt32
}

// truncateByte is truncate to eight signed bits.
func truncateByte[B build](f float32) int32 {
	if has[B](saturateByte) {
		return clamp(truncate[B](f), math.MinInt8, math.MaxInt8)
	}
	return int32(int8(truncate[B](f)))
}

// magnitude is the absolute value.
func magnitude(f float32) float32 {
	return math.Float32frombits(math.Float32bits(f) & 0x7FFFFFFF)
}

// root is the square root, rounded once.
func root(f float32) float32 { return float32(math.Sqrt(float64(f))) }

// peak gives the number of largest magnitude, the first of equals, and that
// magnitude; zeros where no number is larger than 0.
func peak(x []float32) (value, size float32) {
	for _, v := range x {
		if a := magnitude(v); a > size {
			value, size = v, a
		}
	}
	return value, size
}

// tiny is the size below which a group of weights counts as all zero.
const tiny = 1e-15
