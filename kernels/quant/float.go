package quant

import (
	"encoding/binary"
	"math"
)

// HalfToFloat converts an IEEE 754 binary16 number exactly; a signalling NaN becomes quiet.
func HalfToFloat(h uint16) float32 {
	if normalHalf(h) {
		return wideHalf(h)
	}
	return oddHalf(h)
}

// normalHalf tells whether a binary16 number is neither zero, subnormal, infinite nor a NaN.
func normalHalf(h uint16) bool { return h&0x7C00-0x0400 < 0x7800 }

func wideHalf(h uint16) float32 { return math.Float32frombits(uint32(wideHalves(uint64(h)))) }

// wideHalves gives the float32 bits of the normal numbers in the lowest bits of
// both halves of w.
func wideHalves(w uint64) uint64 {
	const sign, rest, bias = 0x0000800000008000, 0x00007FFF00007FFF, 112<<55 | 112<<23
	return w&sign<<16 | (w&rest<<13 + bias)
}

// oddHalf converts what normalHalf excludes.
func oddHalf(h uint16) float32 {
	sign, mantissa := uint32(h&0x8000)<<16, uint32(h&0x3FF)
	switch {
	case h&0x7C00 == 0: // zero or subnormal: mantissa · 2^-24, exact in float32
		f := float32(float32(mantissa) * (1.0 / (1 << 24)))
		return math.Float32frombits(sign | math.Float32bits(f))
	case mantissa == 0:
		return math.Float32frombits(sign | 0x7F800000)
	}
	return math.Float32frombits(sign | 0x7FC00000 | mantissa<<13)
}

// FloatToHalf rounds to binary16, to nearest with ties to even. Every NaN
// becomes the quiet NaN 0x7E00 with its sign, as in ggml.
func FloatToHalf(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits >> 16 & 0x8000)
	abs := bits & 0x7FFFFFFF
	switch {
	case abs > 0x7F800000:
		return sign | 0x7E00
	case abs >= 0x477FF000: // 65520 and more round to infinity
		return sign | 0x7C00
	case abs >= 0x38800000: // normal in binary16
		return sign | uint16((abs+0xFFF+abs>>13&1-112<<23)>>13)
	case abs < 0x33000000: // below 2^-25 rounds to zero, and 2^-25 itself is a tie to even
		return sign
	}
	// Subnormal: the mantissa with its hidden bit, shifted to units of 2^-24.
	shift := 126 - abs>>23
	mantissa := abs&0x7FFFFF | 0x800000
	half, odd := uint32(1)<<(shift-1), mantissa>>shift&1
	return sign | uint16((mantissa+half-1+odd)>>shift)
}

// FloatToBF16 rounds to bfloat16, to nearest with ties to even. A NaN keeps its
// upper bits and becomes quiet.
func FloatToBF16(f float32) uint16 {
	bits := math.Float32bits(f)
	if bits&0x7FFFFFFF > 0x7F800000 {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7FFF + bits>>16&1) >> 16)
}

// BF16ToFloat converts a bfloat16 number exactly.
func BF16ToFloat(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

func quantizeF32(dst []byte, src []float32) {
	dst = dst[:4*len(src)]
	for i, f := range src {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(f))
	}
}

func dequantizeF32(dst []float32, src []byte) {
	src = src[:4*len(dst)]
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func quantizeF16(dst []byte, src []float32) {
	dst = dst[:2*len(src)]
	for i, f := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], FloatToHalf(f))
	}
}

// dequantizeF16 takes four weights from each 64-bit read where all are normal.
func dequantizeF16(dst []float32, src []byte) {
	src = src[:2*len(dst)]
	for len(dst) >= 4 && len(src) >= 8 {
		w := binary.LittleEndian.Uint64(src)
		if allNormal(w) {
			even, odd := wideHalves(w), wideHalves(w>>16)
			dst[0], dst[1] = math.Float32frombits(uint32(even)), math.Float32frombits(uint32(odd))
			dst[2], dst[3] = math.Float32frombits(uint32(even>>32)), math.Float32frombits(uint32(odd>>32))
		} else {
			dst[0], dst[1] = HalfToFloat(uint16(w)), HalfToFloat(uint16(w>>16))
			dst[2], dst[3] = HalfToFloat(uint16(w>>32)), HalfToFloat(uint16(w>>48))
		}
		dst, src = dst[4:], src[8:]
	}
	for i := range dst {
		dst[i] = HalfToFloat(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

// allNormal is normalHalf of four numbers: taking one from an exponent of zero
// clears the top bit set above it, and one more than the largest exponent sets it.
func allNormal(w uint64) bool {
	const top, one, exponents = 0x8000800080008000, 0x0400040004000400, 0x7C007C007C007C00
	e := w & exponents
	return ((e|top)-one)&^(e+one)&top == top
}

func quantizeBF16(dst []byte, src []float32) {
	dst = dst[:2*len(src)]
	for i, f := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], FloatToBF16(f))
	}
}

// dequantizeBF16 takes four weights from each 64-bit read.
func dequantizeBF16(dst []float32, src []byte) {
	src = src[:2*len(dst)]
	for len(dst) >= 4 && len(src) >= 8 {
		w := binary.LittleEndian.Uint64(src)
		dst[0] = math.Float32frombits(uint32(w) << 16)
		dst[1] = math.Float32frombits(uint32(w) & 0xFFFF0000)
		dst[2] = math.Float32frombits(uint32(w>>32) << 16)
		dst[3] = math.Float32frombits(uint32(w>>32) & 0xFFFF0000)
		dst, src = dst[4:], src[8:]
	}
	for i := range dst {
		dst[i] = BF16ToFloat(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

// QuietBF16 makes the NaNs of a run of bfloat16 numbers quiet, in place, as a
// pass through float32 would. len(p) is even.
func QuietBF16(p []byte) {
	for i := 0; i+1 < len(p); i += 2 {
		if b := binary.LittleEndian.Uint16(p[i:]); b&0x7FFF > 0x7F80 {
			binary.LittleEndian.PutUint16(p[i:], b|0x40)
		}
	}
}
