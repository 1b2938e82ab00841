package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// ValueType is the type of a metadata value.
type ValueType uint32

// The value types of the format.
const (
	TypeUint8   ValueType = 0
	TypeInt8    ValueType = 1
	TypeUint16  ValueType = 2
	TypeInt16   ValueType = 3
	TypeUint32  ValueType = 4
	TypeInt32   ValueType = 5
	TypeFloat32 ValueType = 6
	TypeBool    ValueType = 7
	TypeString  ValueType = 8
	TypeArray   ValueType = 9
	TypeUint64  ValueType = 10
	TypeInt64   ValueType = 11
	TypeFloat64 ValueType = 12
)

var valueTypes = map[ValueType]struct {
	name string
	size int // bytes of one value, 0 = not fixed
}{
	TypeUint8: {"UINT8", 1}, TypeInt8: {"INT8", 1}, TypeUint16: {"UINT16", 2}, TypeInt16: {"INT16", 2},
	TypeUint32: {"UINT32", 4}, TypeInt32: {"INT32", 4}, TypeFloat32: {"FLOAT32", 4}, TypeBool: {"BOOL", 1},
	TypeString: {"STRING", 0}, TypeArray: {"ARRAY", 0},
	TypeUint64: {"UINT64", 8}, TypeInt64: {"INT64", 8}, TypeFloat64: {"FLOAT64", 8},
}

func (t ValueType) String() string {
	if v, ok := valueTypes[t]; ok {
		return v.name
	}
	return fmt.Sprintf("unknown value type %d", uint32(t))
}

// size is the number of bytes of one value of the type, 0 when it is not fixed.
func (t ValueType) size() int { return valueTypes[t].size }

// Value is one metadata value. The zero Value is the UINT8 0.
type Value struct {
	Type ValueType
	Elem ValueType // arrays: the type of the elements
	Len  int       // arrays: the number of elements

	num  uint64 // a scalar, as its little-endian bytes would be read
	data any    // string, []string, []Value, or []byte: fixed-size elements, little-endian
}

// KV is one key with its value.
type KV struct {
	Key   string
	Value Value
}

// Uint gives any integer value that is not negative.
func (v Value) Uint() (uint64, bool) {
	switch v.Type {
	case TypeUint8, TypeUint16, TypeUint32, TypeUint64:
		return v.num, true
	}
	n, ok := v.Int()
	return uint64(n), ok && n >= 0
}

// Int gives any integer value that fits an int64.
func (v Value) Int() (int64, bool) {
	switch v.Type {
	case TypeUint8, TypeUint16, TypeUint32, TypeUint64, TypeInt8, TypeInt16, TypeInt32, TypeInt64:
		return toInt(v.Type, v.num)
	}
	return 0, false
}

// Float gives a FLOAT32 or FLOAT64 value, exactly.
func (v Value) Float() (float64, bool) {
	switch v.Type {
	case TypeFloat32:
		return float64(math.Float32frombits(uint32(v.num))), true
	case TypeFloat64:
		return math.Float64frombits(v.num), true
	}
	return 0, false
}

// Bool gives a BOOL value.
func (v Value) Bool() (value, ok bool) { return v.num == 1, v.Type == TypeBool }

// Text gives a STRING value: bytes as they stand in the file, not necessarily UTF-8.
func (v Value) Text() (string, bool) {
	s, ok := v.data.(string)
	return s, ok && v.Type == TypeString
}

// Strings gives the elements of an array of strings, nil for any other value. They are not copied.
func (v Value) Strings() []string {
	s, _ := v.data.([]string)
	return s
}

// Ints gives the elements of an array of integers of any width, nil for any
// other value and when one does not fit an int64.
func (v Value) Ints() []int64 {
	if v.Elem == TypeFloat32 || v.Elem == TypeFloat64 || v.Elem == TypeBool {
		return nil
	}
	return elements(v, func(n uint64) (int64, bool) { return toInt(v.Elem, n) })
}

// Uint32s gives the elements of an array of integers of any width, nil for any
// other value and when one does not fit a uint32.
func (v Value) Uint32s() []uint32 {
	if v.Elem == TypeFloat32 || v.Elem == TypeFloat64 || v.Elem == TypeBool {
		return nil
	}
	return elements(v, func(n uint64) (uint32, bool) {
		i, ok := toInt(v.Elem, n)
		return uint32(i), ok && i >= 0 && i <= math.MaxUint32
	})
}

// Floats gives the elements of an array of FLOAT32 or FLOAT64, exactly, nil for any other value.
func (v Value) Floats() []float64 {
	switch v.Elem {
	case TypeFloat32:
		return elements(v, func(n uint64) (float64, bool) { return float64(math.Float32frombits(uint32(n))), true })
	case TypeFloat64:
		return elements(v, func(n uint64) (float64, bool) { return math.Float64frombits(n), true })
	}
	return nil
}

// Float32s gives the elements of an array of FLOAT32, nil for any other value.
func (v Value) Float32s() []float32 {
	if v.Elem != TypeFloat32 {
		return nil
	}
	return elements(v, func(n uint64) (float32, bool) { return math.Float32frombits(uint32(n)), true })
}

// Bools gives the elements of an array of BOOL, nil for any other value.
func (v Value) Bools() []bool {
	if v.Elem != TypeBool {
		return nil
	}
	return elements(v, func(n uint64) (bool, bool) { return n == 1, true })
}

// Values gives the elements of an array of arrays, nil for any other value. They are not copied.
func (v Value) Values() []Value {
	s, _ := v.data.([]Value)
	return s
}

// Equal tells whether both have the same type and the same bytes; a NaN equals itself.
func (v Value) Equal(w Value) bool {
	if v.Type != w.Type || v.Elem != w.Elem || v.Len != w.Len || v.num != w.num {
		return false
	}
	switch a := v.data.(type) {
	case nil:
		return w.data == nil
	case string:
		b, ok := w.data.(string)
		return ok && a == b
	case []string:
		b, ok := w.data.([]string)
		return ok && slices.Equal(a, b)
	case []byte:
		b, ok := w.data.([]byte)
		return ok && bytes.Equal(a, b)
	case []Value:
		b, ok := w.data.([]Value)
		return ok && slices.EqualFunc(a, b, Value.Equal)
	}
	return false
}

// toInt widens an integer of type t.
func toInt(t ValueType, n uint64) (int64, bool) {
	switch t {
	case TypeInt8:
		return int64(int8(n)), true
	case TypeInt16:
		return int64(int16(n)), true
	case TypeInt32:
		return int64(int32(n)), true
	case TypeInt64:
		return int64(n), true
	}
	return int64(n), n <= math.MaxInt64
}

// elements decodes an array of fixed-size elements.
func elements[T any](v Value, decode func(uint64) (T, bool)) []T {
	raw, ok := v.data.([]byte)
	size := v.Elem.size()
	if !ok || v.Type != TypeArray || size == 0 {
		return nil
	}
	out := make([]T, 0, len(raw)/size)
	for ; len(raw) >= size; raw = raw[size:] {
		e, ok := decode(little(raw[:size]))
		if !ok {
			return nil
		}
		out = append(out, e)
	}
	return out
}

// little reads 1, 2, 4 or 8 bytes.
func little(b []byte) uint64 {
	var w [8]byte
	copy(w[:], b)
	return binary.LittleEndian.Uint64(w[:])
}
