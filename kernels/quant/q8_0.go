package quant

import (
	"encoding/binary"
	"math"
)

// A Q8_0 block is 32 weights in 34 bytes: the scale d as binary16, then 32
// signed codes. Weight = d · code. Reference: quantize_row_q8_0_ref in ggml.

func quantizeQ8_0(dst []byte, src []float32) {
	for len(src) > 0 {
		quantizeBlockQ8_0((*[34]byte)(dst), (*[32]float32)(src))
		dst, src = dst[34:], src[32:]
	}
}

func quantizeBlockQ8_0(dst *[34]byte, src *[32]float32) {
	// Magnitudes of non-NaN floats are ordered as their bits are.
	var top [4]uint32
	for i := 0; i < 32; i += 4 {
		top[0] = max(top[0], math.Float32bits(src[i])&0x7FFFFFFF)
		top[1] = max(top[1], math.Float32bits(src[i+1])&0x7FFFFFFF)
		top[2] = max(top[2], math.Float32bits(src[i+2])&0x7FFFFFFF)
		top[3] = max(top[3], math.Float32bits(src[i+3])&0x7FFFFFFF)
	}
	bits := max(top[0], top[1], top[2], top[3])
	if bits >= 0x7F800000 {
		quantizeOddBlockQ8_0(dst, src)
		return
	}
	d := math.Float32frombits(bits) / 127
	var inverse float32
	if d != 0 {
		inverse = 1 / d
	}
	binary.LittleEndian.PutUint16(dst[:], FloatToHalf(d))
	codes := (*[32]byte)(dst[2:])
	if math.IsInf(float64(inverse), 0) {
		// A maximum below about 4e-37: the C code converts infinities and NaNs
		// to integers, which is undefined; x86-64 gives 0.
		*codes = [32]byte{}
		return
	}
	for i, x := range src {
		codes[i] = byte(roundAway(float32(x * inverse)))
	}
}

// roundAway rounds to the nearest integer, halves away from zero. The sum is
// taken in float64, where it is exact for every float32 of magnitude 2^-29 to 2^31
// and does not reach the next integer below that.
func roundAway(f float32) int32 {
	half := math.Float64frombits(uint64(math.Float32bits(f)&0x80000000)<<32 | 0x3FE0000000000000)
	return int32(float64(f) + half)
}

// quantizeOddBlockQ8_0 takes blocks with an infinity or a NaN as the C code
// does on x86-64: the maximum is taken in order with a comparison that a NaN
// fails, so that it starts anew after each NaN; and what no int32 holds becomes 0.
func quantizeOddBlockQ8_0(dst *[34]byte, src *[32]float32) {
	var peak float32
	for _, x := range src {
		magnitude := math.Float32frombits(math.Float32bits(x) & 0x7FFFFFFF)
		if !(peak > magnitude) {
			peak = magnitude
		}
	}
	d := peak / 127
	var inverse float32
	if d != 0 {
		inverse = 1 / d
	}
	binary.LittleEndian.PutUint16(dst[:], FloatToHalf(d))
	for i, x := range src {
		code := float32(x * inverse)
		dst[2+i] = 0
		if code > -(1<<31) && code < 1<<31 {
			dst[2+i] = byte(roundAway(code))
		}
	}
}

func dequantizeQ8_0(dst []float32, src []byte) {
	for len(dst) > 0 {
		block, weights := (*[34]byte)(src), (*[32]float32)(dst)
		d := HalfToFloat(binary.LittleEndian.Uint16(block[:]))
		for i := range weights {
			weights[i] = float32(float32(int8(block[2+i])) * d)
		}
		dst, src = dst[32:], src[34:]
	}
}
