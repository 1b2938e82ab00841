package gguf

import (
	"fmt"
	"math"
	"math/bits"
)

// Type is the type of a tensor's elements, numbered as ggml numbers them.
type Type uint32

// The types that a current file can hold.
const (
	F32     Type = 0
	F16     Type = 1
	Q4_0    Type = 2
	Q4_1    Type = 3
	Q5_0    Type = 6
	Q5_1    Type = 7
	Q8_0    Type = 8
	Q8_1    Type = 9
	Q2_K    Type = 10
	Q3_K    Type = 11
	Q4_K    Type = 12
	Q5_K    Type = 13
	Q6_K    Type = 14
	Q8_K    Type = 15
	IQ2_XXS Type = 16
	IQ2_XS  Type = 17
	IQ3_XXS Type = 18
	IQ1_S   Type = 19
	IQ4_NL  Type = 20
	IQ3_S   Type = 21
	IQ2_S   Type = 22
	IQ4_XS  Type = 23
	I8      Type = 24
	I16     Type = 25
	I32     Type = 26
	I64     Type = 27
	F64     Type = 28
	IQ1_M   Type = 29
	BF16    Type = 30
	TQ1_0   Type = 34
	TQ2_0   Type = 35
	MXFP4   Type = 39
	NVFP4   Type = 40
	Q1_0    Type = 41
	Q2_0    Type = 42 // 64 elements a block; a fork uses the number for blocks of 128, whose files do not fit and are refused
)

type geometry struct {
	name            string
	elements, bytes uint64
}

var types = map[Type]geometry{
	F32: {"F32", 1, 4}, F16: {"F16", 1, 2}, BF16: {"BF16", 1, 2}, F64: {"F64", 1, 8},
	I8: {"I8", 1, 1}, I16: {"I16", 1, 2}, I32: {"I32", 1, 4}, I64: {"I64", 1, 8},
	Q4_0: {"Q4_0", 32, 18}, Q4_1: {"Q4_1", 32, 20}, Q5_0: {"Q5_0", 32, 22}, Q5_1: {"Q5_1", 32, 24},
	Q8_0: {"Q8_0", 32, 34}, Q8_1: {"Q8_1", 32, 36},
	Q2_K: {"Q2_K", 256, 84}, Q3_K: {"Q3_K", 256, 110}, Q4_K: {"Q4_K", 256, 144}, Q5_K: {"Q5_K", 256, 176},
	Q6_K: {"Q6_K", 256, 210}, Q8_K: {"Q8_K", 256, 292},
	IQ1_S: {"IQ1_S", 256, 50}, IQ1_M: {"IQ1_M", 256, 56},
	IQ2_XXS: {"IQ2_XXS", 256, 66}, IQ2_XS: {"IQ2_XS", 256, 74}, IQ2_S: {"IQ2_S", 256, 82},
	IQ3_XXS: {"IQ3_XXS", 256, 98}, IQ3_S: {"IQ3_S", 256, 110},
	IQ4_NL: {"IQ4_NL", 32, 18}, IQ4_XS: {"IQ4_XS", 256, 136},
	TQ1_0: {"TQ1_0", 256, 54}, TQ2_0: {"TQ2_0", 256, 66},
	MXFP4: {"MXFP4", 32, 17}, NVFP4: {"NVFP4", 64, 36}, Q1_0: {"Q1_0", 128, 18}, Q2_0: {"Q2_0", 64, 18},
}

// removed names the numbers that were given to types which files no longer hold.
var removed = map[Type]string{
	4: "Q4_2", 5: "Q4_3", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8",
	36: "IQ4_NL_4_4", 37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8",
}

// String gives the name as llama.cpp spells it in capitals, or "unknown tensor type 99".
func (t Type) String() string {
	if g, ok := types[t]; ok {
		return g.name
	}
	if name, ok := removed[t]; ok {
		return fmt.Sprintf("removed tensor type %d (%s)", uint32(t), name)
	}
	return fmt.Sprintf("unknown tensor type %d", uint32(t))
}

// ParseType finds a type by the name that [Type.String] gives.
func ParseType(name string) (Type, bool) {
	for t, g := range types {
		if g.name == name {
			return t, true
		}
	}
	return 0, false
}

// Block tells how many elements one block holds and how many bytes it takes.
func (t Type) Block() (elements, bytes uint64, known bool) {
	g, ok := types[t]
	return g.elements, g.bytes, ok
}

// Quantized tells whether elements share blocks.
func (t Type) Quantized() bool { return types[t].elements > 1 }

// Size is the number of bytes of a tensor with these dimensions (ggml order,
// fastest first; none is a scalar). It refuses an unknown type, a zero
// dimension, a first dimension that the block does not divide, and a size
// that does not fit an int64.
func (t Type) Size(dims []uint64) (int64, error) {
	elements, bytes, known := t.Block()
	if !known {
		return 0, fmt.Errorf("type: got %s, want a type of this version of the format", t)
	}
	row := uint64(1)
	if len(dims) > 0 {
		row = dims[0]
	}
	count, over := uint64(1), uint64(0)
	for i, d := range dims {
		if d == 0 {
			return 0, fmt.Errorf("dimension %d: got zero, want at least 1 element", i)
		}
		if over, count = bits.Mul64(count, d); over != 0 || count > math.MaxInt64 {
			return 0, fmt.Errorf("dimensions: got %v, want at most %d elements", dims, int64(math.MaxInt64))
		}
	}
	if row%elements != 0 {
		return 0, fmt.Errorf("dimension 0: got %d elements, want a multiple of %d (the block of %s)", row, elements, t)
	}
	over, size := bits.Mul64(count/elements, bytes)
	if over != 0 || size > math.MaxInt64 {
		return 0, fmt.Errorf("dimensions: got %v of %s, want at most %d bytes", dims, t, int64(math.MaxInt64))
	}
	return int64(size), nil
}
