package gguf

import (
	"encoding/binary"
	"math"
)

// Uint16 makes a UINT16 value.
func Uint16(n uint16) Value { return Value{Type: TypeUint16, num: uint64(n)} }

// Uint32 makes a UINT32 value.
func Uint32(n uint32) Value { return Value{Type: TypeUint32, num: uint64(n)} }

// Int32 makes an INT32 value.
func Int32(n int32) Value { return Value{Type: TypeInt32, num: uint64(uint32(n))} }

// Uint64 makes a UINT64 value.
func Uint64(n uint64) Value { return Value{Type: TypeUint64, num: n} }

// Int64 makes an INT64 value.
func Int64(n int64) Value { return Value{Type: TypeInt64, num: uint64(n)} }

// Float32 makes a FLOAT32 value.
func Float32(x float32) Value { return Value{Type: TypeFloat32, num: uint64(math.Float32bits(x))} }

// Float64 makes a FLOAT64 value.
func Float64(x float64) Value { return Value{Type: TypeFloat64, num: math.Float64bits(x)} }

// Bool makes a BOOL value.
func Bool(b bool) Value {
	v := Value{Type: TypeBool}
	if b {
		v.num = 1
	}
	return v
}

// String makes a STRING value.
func String(s string) Value { return Value{Type: TypeString, data: s} }

// Strings makes an ARRAY of STRING. The slice is kept, not copied.
func Strings(s []string) Value {
	if s == nil {
		s = []string{}
	}
	return Value{Type: TypeArray, Elem: TypeString, Len: len(s), data: s}
}

// Uint8s makes an ARRAY of UINT8.
func Uint8s(s []uint8) Value {
	return fixed(TypeUint8, len(s), func(i int) uint64 { return uint64(s[i]) })
}

// Uint32s makes an ARRAY of UINT32.
func Uint32s(s []uint32) Value {
	return fixed(TypeUint32, len(s), func(i int) uint64 { return uint64(s[i]) })
}

// Int32s makes an ARRAY of INT32.
func Int32s(s []int32) Value {
	return fixed(TypeInt32, len(s), func(i int) uint64 { return uint64(uint32(s[i])) })
}

// Float32s makes an ARRAY of FLOAT32.
func Float32s(s []float32) Value {
	return fixed(TypeFloat32, len(s), func(i int) uint64 { return uint64(math.Float32bits(s[i])) })
}

// Bools makes an ARRAY of BOOL.
func Bools(s []bool) Value {
	return fixed(TypeBool, len(s), func(i int) uint64 { return Bool(s[i]).num })
}

// Arrays makes an ARRAY of ARRAY. llama.cpp does not read it.
func Arrays(s []Value) Value {
	if s == nil {
		s = []Value{}
	}
	return Value{Type: TypeArray, Elem: TypeArray, Len: len(s), data: s}
}

func fixed(elem ValueType, n int, at func(int) uint64) Value {
	size := elem.size()
	raw := make([]byte, n*size)
	var w [8]byte
	for i := range n {
		binary.LittleEndian.PutUint64(w[:], at(i))
		copy(raw[i*size:], w[:size])
	}
	return Value{Type: TypeArray, Elem: elem, Len: n, data: raw}
}
