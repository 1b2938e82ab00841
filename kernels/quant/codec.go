// Package quant holds the codecs of ggml's tensor types: from float32 weights to
// blocks of bytes and back, bit-equal to ggml's own plain x86-64 build. Every type of
// the GGUF specification can be read. Those that a fixed rule writes have their
// writer in the [Codec]; those whose scales are searched for have a [Quantizer].
//
// The reference is ggml-quants.c and ggml-impl.h of the ggml library (MIT
// License), whose algorithms these are. Every product is rounded to float32
// explicitly, so that no platform fuses it into a following sum. All stored numbers are
// little-endian. Only which NaN comes out of an operation is the processor's
// choice, here as in ggml.
package quant

import (
	"fmt"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// Codec converts between float32 weights and the bytes of one tensor type.
// Both functions work on whole blocks: with n weights, n a multiple of Weights,
// the byte slice has n/Weights·Bytes bytes. They panic on other lengths, as a
// slice expression does; callers take lengths from tensor shapes that were checked.
type Codec struct {
	Type    gguf.Type
	Weights int // weights per block
	Bytes   int // bytes per block
	// Quantize fills dst with the blocks of src. Nil where only reading is covered.
	Quantize func(dst []byte, src []float32)
	// Dequantize fills dst with the weights of the blocks in src.
	Dequantize func(dst []float32, src []byte)
}

// Size returns the bytes that n weights take. n is a multiple of Weights.
func (c Codec) Size(n int64) int64 { return n / int64(c.Weights) * int64(c.Bytes) }

var codecs = map[gguf.Type]Codec{
	gguf.F32:     {gguf.F32, 1, 4, quantizeF32, dequantizeF32},
	gguf.F16:     {gguf.F16, 1, 2, quantizeF16, dequantizeF16},
	gguf.BF16:    {gguf.BF16, 1, 2, quantizeBF16, dequantizeBF16},
	gguf.Q8_0:    {gguf.Q8_0, 32, 34, quantizeQ8_0, dequantizeQ8_0},
	gguf.Q4_0:    {gguf.Q4_0, 32, 18, nil, dequantizeQ4_0},
	gguf.Q4_1:    {gguf.Q4_1, 32, 20, nil, dequantizeQ4_1},
	gguf.Q5_0:    {gguf.Q5_0, 32, 22, nil, dequantizeQ5_0},
	gguf.Q5_1:    {gguf.Q5_1, 32, 24, nil, dequantizeQ5_1},
	gguf.Q2_K:    {gguf.Q2_K, 256, 84, nil, dequantizeQ2_K},
	gguf.Q3_K:    {gguf.Q3_K, 256, 110, nil, dequantizeQ3_K},
	gguf.Q4_K:    {gguf.Q4_K, 256, 144, nil, dequantizeQ4_K},
	gguf.Q5_K:    {gguf.Q5_K, 256, 176, nil, dequantizeQ5_K},
	gguf.Q6_K:    {gguf.Q6_K, 256, 210, nil, dequantizeQ6_K},
	gguf.Q8_1:    {gguf.Q8_1, 32, 36, nil, dequantizeQ8_1},
	gguf.Q8_K:    {gguf.Q8_K, 256, 292, nil, dequantizeQ8_K},
	gguf.IQ1_S:   {gguf.IQ1_S, 256, 50, nil, dequantizeIQ1_S},
	gguf.IQ1_M:   {gguf.IQ1_M, 256, 56, nil, dequantizeIQ1_M},
	gguf.IQ2_XXS: {gguf.IQ2_XXS, 256, 66, nil, dequantizeIQ2_XXS},
	gguf.IQ2_XS:  {gguf.IQ2_XS, 256, 74, nil, dequantizeIQ2_XS},
	gguf.IQ2_S:   {gguf.IQ2_S, 256, 82, nil, dequantizeIQ2_S},
	gguf.IQ3_XXS: {gguf.IQ3_XXS, 256, 98, nil, dequantizeIQ3_XXS},
	gguf.IQ3_S:   {gguf.IQ3_S, 256, 110, nil, dequantizeIQ3_S},
	gguf.IQ4_NL:  {gguf.IQ4_NL, 32, 18, nil, dequantizeIQ4_NL},
	gguf.IQ4_XS:  {gguf.IQ4_XS, 256, 136, nil, dequantizeIQ4_XS},
	gguf.TQ1_0:   {gguf.TQ1_0, 256, 54, quantizeTQ1_0, dequantizeTQ1_0},
	gguf.TQ2_0:   {gguf.TQ2_0, 256, 66, quantizeTQ2_0, dequantizeTQ2_0},
	gguf.MXFP4:   {gguf.MXFP4, 32, 17, quantizeMXFP4, dequantizeMXFP4},
	gguf.NVFP4:   {gguf.NVFP4, 64, 36, quantizeNVFP4, dequantizeNVFP4},
	gguf.Q1_0:    {gguf.Q1_0, 128, 18, quantizeQ1_0, dequantizeQ1_0},
	gguf.Q2_0:    {gguf.Q2_0, 64, 18, quantizeQ2_0, dequantizeQ2_0},
	gguf.I8:      {gguf.I8, 1, 1, nil, dequantizeI8},
	gguf.I16:     {gguf.I16, 1, 2, nil, dequantizeI16},
	gguf.I32:     {gguf.I32, 1, 4, nil, dequantizeI32},
	gguf.I64:     {gguf.I64, 1, 8, nil, dequantizeI64},
	gguf.F64:     {gguf.F64, 1, 8, nil, dequantizeF64},
}

// NoCodecError says that a tensor type has no codec here, or none in the wanted direction.
type NoCodecError struct {
	Type    gguf.Type
	Writing bool // there is a codec that reads the type, none that writes it
}

func (e *NoCodecError) Error() string {
	if e.Writing {
		return fmt.Sprintf("no codec that writes type %s: it is read only", e.Type)
	}
	return fmt.Sprintf("no codec for type %s", e.Type)
}

// For returns the codec of a type, or a [NoCodecError].
func For(t gguf.Type) (Codec, error) {
	c, ok := codecs[t]
	if !ok {
		return Codec{}, &NoCodecError{Type: t}
	}
	return c, nil
}

// Writer returns the codec of a type that can also be written, or a [NoCodecError].
func Writer(t gguf.Type) (Codec, error) {
	c, err := For(t)
	if err == nil && c.Quantize == nil {
		return Codec{}, &NoCodecError{Type: t, Writing: true}
	}
	return c, err
}
