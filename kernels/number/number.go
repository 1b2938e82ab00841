// Package number converts the floats that models store weights and scales in,
// F32, F16 and BF16 of safetensors, little-endian, and bounds their rounding.
package number

import (
	"encoding/binary"
	"math"

	"github.com/weighmaster/weighmaster/kernels/quant"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// Type is a type of floats.
type Type struct {
	DType     safetensors.DType
	Bytes     int
	Precision int // bits of the significand, with the hidden one
	smallest  int // exponent of the smallest subnormal number
}

var (
	F32  = Type{safetensors.F32, 4, 24, -149}
	F16  = Type{safetensors.F16, 2, 11, -24}
	BF16 = Type{safetensors.BF16, 2, 8, -133}
)

// Of finds the type of a tensor's elements; ok is false for what is none of the three.
func Of(d safetensors.DType) (t Type, ok bool) {
	switch d {
	case safetensors.F32:
		return F32, true
	case safetensors.F16:
		return F16, true
	case safetensors.BF16:
		return BF16, true
	}
	return Type{}, false
}

// Decode fills dst with the numbers in src, which has len(dst)·Bytes bytes.
func (t Type) Decode(dst []float32, src []byte) {
	src = src[:t.Bytes*len(dst)]
	for i := range dst {
		switch t.DType {
		case safetensors.F32:
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		case safetensors.F16:
			dst[i] = quant.HalfToFloat(binary.LittleEndian.Uint16(src[2*i:]))
		default:
			dst[i] = quant.BF16ToFloat(binary.LittleEndian.Uint16(src[2*i:]))
		}
	}
}

// Append appends x, rounded to nearest, ties to even.
func (t Type) Append(dst []byte, x float32) []byte {
	switch t.DType {
	case safetensors.F32:
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(x))
	case safetensors.F16:
		return binary.LittleEndian.AppendUint16(dst, quant.FloatToHalf(x))
	}
	return binary.LittleEndian.AppendUint16(dst, quant.FloatToBF16(x))
}

// Round gives the number of this type nearest to x, ties to even.
func (t Type) Round(x float32) float32 {
	switch t.DType {
	case safetensors.F32:
		return x
	case safetensors.F16:
		return quant.HalfToFloat(quant.FloatToHalf(x))
	}
	return quant.BF16ToFloat(quant.FloatToBF16(x))
}

// HalfSpacing bounds the distance between x, a number of this type, and what
// was rounded to it.
func (t Type) HalfSpacing(x float64) float64 {
	_, exponent := math.Frexp(x) // |x| in [2^(exponent-1), 2^exponent)
	return math.Ldexp(0.5, max(exponent-t.Precision, t.smallest))
}

// Unit is the largest relative error of rounding to a normal number.
func (t Type) Unit() float64 { return math.Ldexp(1, -t.Precision) }
