package quant

import (
	"encoding/binary"
	"math"
)

// HalfToFloat converts an IEEE 754 binary16 number exactly; a signalling NaN becomes quiet.
func HalfToFloat(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exponent, mantissa := uint32(h>>10&0x1F), uint32(h&0x3FF)
	switch {
	case exponent == 0x1F && mantissa != 0:
		return math.Float32frombits(sign | 0x7FC00000 | mantissa<<13)
	case exponent == 0x1F:
		return math.Float32frombits(sign | 0x7F800000)
	case exponent == 0: // zero or subnormal: mantissa · 2^-24, exact in float32
		f := float32(float32(mantissa) * (1.0 / (1 << 24)))
		return math.Float32frombits(sign | math.Float32bits(f))
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | mantissa<<13)
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

func dequantizeF16(dst []float32, src []byte) {
	src = src[:2*len(dst)]
	for i := range dst {
		dst[i] = HalfToFloat(binary.LittleEndian.Uint16(src[2*i:]))
	}
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
