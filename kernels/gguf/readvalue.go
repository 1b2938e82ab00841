package gguf

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// value reads one value of type t.
func (c *cursor) value(what string, t ValueType, depth int) (Value, error) {
	switch {
	case t == TypeString:
		s, err := c.string(what, MaxString)
		return Value{Type: t, data: s}, err
	case t == TypeArray:
		return c.array(what, depth)
	case t.size() > 0:
		raw := c.word[:t.size()]
		at := c.off
		if err := c.full(raw, what); err != nil {
			return Value{}, err
		}
		c.toLittle(raw, t.size())
		if t == TypeBool && raw[0] > 1 {
			if err := c.notes.note(quirkBool, &FormatError{Offset: at, What: what, Got: fmt.Sprintf("BOOL %d", raw[0]), Want: "0 or 1"}); err != nil {
				return Value{}, err
			}
		}
		return Value{Type: t, num: little(raw)}, nil
	}
	return Value{}, &FormatError{Offset: c.off - 4, What: what + ": type", Got: t.String(), Want: "a value type of 0 to 12"}
}

// array reads the element type, the length and the elements: type first, so
// that the length is judged by what each element takes.
func (c *cursor) array(what string, depth int) (Value, error) {
	if depth > 0 {
		_ = c.notes.note(quirkNested, nil) // read here
	}
	if depth >= MaxDepth {
		return Value{}, c.fail(what, "arrays nested deeper", fmt.Sprintf("at most %d levels", MaxDepth))
	}
	code, err := c.uint32(what + ": element type")
	if err != nil {
		return Value{}, err
	}
	elem := ValueType(code)
	if _, known := valueTypes[elem]; !known {
		return Value{}, &FormatError{Offset: c.off - 4, What: what + ": element type", Got: elem.String(), Want: "a value type of 0 to 12"}
	}
	least := uint64(elem.size())
	switch elem {
	case TypeString:
		least = 8 // its length
	case TypeArray:
		least = 12 // its element type and length
	}
	n, err := c.count(what+": array length", least, MaxElements)
	if err != nil {
		return Value{}, err
	}
	v := Value{Type: TypeArray, Elem: elem, Len: n}
	switch elem {
	case TypeString:
		what += ": element" // once, not for each of 100,000 tokens
		v.data, err = collect(n, func() (string, error) { return c.string(what, MaxString) })
	case TypeArray:
		v.data, err = collect(n, func() (Value, error) { return c.array(what+": element", depth+1) })
	default:
		v.data, err = c.fixed(what, elem, n)
	}
	if err != nil {
		return Value{}, err
	}
	return v, nil
}

// collect reads n elements; the slice grows with what was read.
func collect[T any](n int, read func() (T, error)) ([]T, error) {
	s := make([]T, 0, min(n, 1024))
	for range n {
		e, err := read()
		if err != nil {
			return nil, err
		}
		if len(s) == cap(s) { // twice, and at last exactly: append would copy more often
			s = slices.Grow(s, min(n-len(s), len(s)))
		}
		s = append(s, e)
	}
	return s, nil
}

func (c *cursor) fixed(what string, elem ValueType, n int) ([]byte, error) {
	at := c.off
	raw, err := c.bytes(n*elem.size(), what)
	if err != nil {
		return nil, err
	}
	c.toLittle(raw, elem.size())
	if elem == TypeBool {
		if i := slices.IndexFunc(raw, func(b byte) bool { return b > 1 }); i >= 0 {
			bad := &FormatError{Offset: at + int64(i), What: fmt.Sprintf("%s[%d]", what, i), Got: fmt.Sprintf("BOOL %d", raw[i]), Want: "0 or 1"}
			if err := c.notes.note(quirkBool, bad); err != nil {
				return nil, err
			}
		}
	}
	return raw, nil
}

// toLittle turns big-endian elements of the given size round in place.
func (c *cursor) toLittle(raw []byte, size int) {
	if c.order == binary.LittleEndian || size == 1 {
		return
	}
	for ; len(raw) >= size; raw = raw[size:] {
		slices.Reverse(raw[:size])
	}
}
