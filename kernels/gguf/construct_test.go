package gguf

// Values of the types that no writer here needs, for the tests of the reader.

// Uint8 makes a UINT8 value.
func Uint8(n uint8) Value { return Value{Type: TypeUint8, num: uint64(n)} }

// Int8 makes an INT8 value.
func Int8(n int8) Value { return Value{Type: TypeInt8, num: uint64(uint8(n))} }

// Int16 makes an INT16 value.
func Int16(n int16) Value { return Value{Type: TypeInt16, num: uint64(uint16(n))} }

// Int64s makes an ARRAY of INT64.
func Int64s(s []int64) Value {
	return fixed(TypeInt64, len(s), func(i int) uint64 { return uint64(s[i]) })
}
