package mlx

import (
	"encoding/binary"
	"math"

	"github.com/weighmaster/weighmaster/kernels/quant"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// number is a type of weights, by its significand.
type number struct {
	dtype     safetensors.DType
	bytes     int
	precision int // bits of the significand, with the hidden one
	smallest  int // exponent of the smallest subnormal number
}

var numbers = map[safetensors.DType]number{
	safetensors.F32:  {safetensors.F32, 4, 24, -149},
	safetensors.F16:  {safetensors.F16, 2, 11, -24},
	safetensors.BF16: {safetensors.BF16, 2, 8, -133},
}

// decode fills dst with the numbers in src.
func (n number) decode(dst []float32, src []byte) {
	src = src[:n.bytes*len(dst)]
	for i := range dst {
		switch n.dtype {
		case safetensors.F32:
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		case safetensors.F16:
			dst[i] = quant.HalfToFloat(binary.LittleEndian.Uint16(src[2*i:]))
		default:
			dst[i] = quant.BF16ToFloat(binary.LittleEndian.Uint16(src[2*i:]))
		}
	}
}

// encode appends x, rounded to nearest, ties to even.
func (n number) encode(dst []byte, x float32) []byte {
	switch n.dtype {
	case safetensors.F32:
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(x))
	case safetensors.F16:
		return binary.LittleEndian.AppendUint16(dst, quant.FloatToHalf(x))
	}
	return binary.LittleEndian.AppendUint16(dst, quant.FloatToBF16(x))
}

// round is the number of this type nearest to x.
func (n number) round(x float32) float32 {
	switch n.dtype {
	case safetensors.F32:
		return x
	case safetensors.F16:
		return quant.HalfToFloat(quant.FloatToHalf(x))
	}
	return quant.BF16ToFloat(quant.FloatToBF16(x))
}

// halfSpacing bounds the distance between a number that was rounded to x and x.
func (n number) halfSpacing(x float64) float64 {
	_, exponent := math.Frexp(x) // |x| in [2^(exponent-1), 2^exponent)
	return math.Ldexp(0.5, max(exponent-n.precision, n.smallest))
}

// unit is the largest relative error of rounding to a normal number.
func (n number) unit() float64 { return math.Ldexp(1, -n.precision) }
