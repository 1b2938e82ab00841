// Package lowfloat converts between float32 and the floats of eight and fewer
// bits that models store weights and scales in.
//
// The formats are those of the OCP Microscaling Formats (MX) Specification
// v1.0, section 5.3 (E4M3, E5M2, E3M2, E2M3, E2M1) and section 5.4 (E8M0), whose
// E4M3 and E5M2 are those of the OCP 8-bit Floating Point Specification v1.0:
//
//	format  bits  bias  largest  smallest  specials
//	E4M3    8     7     448      2^-9      NaN 0x7F, 0xFF; no infinity (also "E4M3FN")
//	E5M2    8     15    57344    2^-16     infinities 0x7C, 0xFC; NaN 0x7D-0x7F, 0xFD-0xFF
//	E3M2    6     3     28       2^-4      none
//	E2M3    6     1     7.5      2^-3      none
//	E2M1    4     1     6        2^-1      none
//	E8M0    8     127   2^127    2^-127    NaN 0xFF; no sign, no zero
//
// Reading is exact. Writing rounds to nearest, ties to even, and saturates.
// Every NaN that is read is the quiet NaN 0x7FC00000, with the sign of the code.
package lowfloat

import "math"

var (
	e4m3 = table[[256]float32](4, 3)
	e5m2 = table[[256]float32](5, 2)
	e3m2 = table[[64]float32](3, 2)
	e2m3 = table[[64]float32](2, 3)
	e2m1 = table[[16]float32](2, 1)
)

// table gives the value of every code of a format with a sign bit, exponent
// bits and mantissa bits, before the specials of E4M3 and E5M2.
func table[T [16]float32 | [64]float32 | [256]float32](exponentBits, mantissaBits int) (t T) {
	bias := 1<<(exponentBits-1) - 1
	for code := range len(t) {
		mantissa := code & (1<<mantissaBits - 1)
		exponent := code >> mantissaBits & (1<<exponentBits - 1)
		if exponent == 0 {
			exponent = 1 // subnormal
		} else {
			mantissa |= 1 << mantissaBits
		}
		v := math.Ldexp(float64(mantissa), exponent-bias-mantissaBits)
		if code >= len(t)/2 {
			v = math.Copysign(v, -1)
		}
		t[code] = float32(v)
	}
	return t
}

func init() {
	nan := math.Float32frombits(0x7FC00000)
	for _, sign := range []int{0, 0x80} {
		s := uint32(sign) << 24
		signed := math.Float32frombits(math.Float32bits(nan) | s)
		e4m3[sign|0x7F] = signed
		e5m2[sign|0x7C] = math.Float32frombits(0x7F800000 | s)
		for code := 0x7D; code <= 0x7F; code++ {
			e5m2[sign|code] = signed
		}
	}
}

// E4M3 gives the value of an E4M3 code.
func E4M3(b byte) float32 { return e4m3[b] }

// E5M2 gives the value of an E5M2 code.
func E5M2(b byte) float32 { return e5m2[b] }

// E3M2 gives the value of the E3M2 code in the low six bits.
func E3M2(code byte) float32 { return e3m2[code&63] }

// E2M3 gives the value of the E2M3 code in the low six bits.
func E2M3(code byte) float32 { return e2m3[code&63] }

// E2M1 gives the value of the E2M1 code in the low four bits.
func E2M1(code byte) float32 { return e2m1[code&15] }

// E8M0 gives the power of two 2^(b-127), or NaN for 0xFF. Code 0, 2^-127, is
// subnormal in float32 and exact.
func E8M0(b byte) float32 {
	switch b {
	case 0:
		return math.Float32frombits(0x00400000)
	case 0xFF:
		return math.Float32frombits(0x7FC00000)
	}
	return math.Float32frombits(uint32(b) << 23)
}
