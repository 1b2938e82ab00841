package gguf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// TensorSource is one tensor to write.
type TensorSource struct {
	Name string
	Dims []uint64 // ggml order, fastest first
	Type Type
	// Data writes exactly the bytes of the tensor, little-endian. It is called once, in order.
	Data func(w io.Writer) error
}

// Write writes a version 3 little-endian file with the keys and tensors in the
// given order, aligned to general.alignment where that key is given and to
// [DefaultAlignment] bytes otherwise. It refuses what [Open] would refuse before
// the first byte is written; an error while tensor data is written leaves w with
// a part of a file.
func Write(w io.Writer, kvs []KV, tensors []TensorSource) error {
	align, err := checkKVs(kvs)
	if err != nil {
		return err
	}
	sizes, offsets, err := checkSources(tensors, align)
	if err != nil {
		return err
	}
	e := &encoder{w: bufio.NewWriterSize(w, 256<<10)}
	e.header(kvs, tensors, offsets, align)
	for i, t := range tensors {
		e.tensor(t, sizes[i])
		e.pad(align)
	}
	if e.err != nil {
		return e.err
	}
	return e.w.Flush()
}

// WriteHeader writes what [Write] writes before the tensor data, padding
// included, and gives the size in bytes of the whole file that it begins. The
// tensors' Data is not called.
func WriteHeader(w io.Writer, kvs []KV, tensors []TensorSource) (size int64, err error) {
	align, err := checkKVs(kvs)
	if err != nil {
		return 0, err
	}
	sizes, offsets, err := checkSources(tensors, align)
	if err != nil {
		return 0, err
	}
	e := &encoder{w: bufio.NewWriterSize(w, 256<<10)}
	e.header(kvs, tensors, offsets, align)
	if e.err != nil {
		return 0, e.err
	}
	size = e.n
	if last := len(tensors) - 1; last >= 0 {
		padded, _ := pad(sizes[last], align) // it fits: checkSources
		size += offsets[last] + padded
	}
	return size, e.w.Flush()
}

func (e *encoder) header(kvs []KV, tensors []TensorSource, offsets []int64, align uint64) {
	e.raw(magic)
	e.uint(3, 4)
	e.uint(uint64(len(tensors)), 8)
	e.uint(uint64(len(kvs)), 8)
	for _, kv := range kvs {
		e.kv(kv)
	}
	for i, t := range tensors {
		e.string(t.Name)
		e.uint(uint64(len(t.Dims)), 4)
		for _, d := range t.Dims {
			e.uint(d, 8)
		}
		e.uint(uint64(t.Type), 4)
		e.uint(uint64(offsets[i]), 8)
	}
	e.pad(align)
}

func checkKVs(kvs []KV) (align uint64, err error) {
	if len(kvs) > MaxKVs {
		return 0, fmt.Errorf("gguf: write: got %d keys, want at most %d", len(kvs), MaxKVs)
	}
	seen := map[string]bool{}
	align = DefaultAlignment
	for _, kv := range kvs {
		if _, bad := nameFault(kv.Key, 0, "key", quirkEmptyKey); bad != nil {
			return 0, fmt.Errorf("gguf: write: %w", bad)
		}
		if len(kv.Key) > MaxKey || seen[kv.Key] {
			return 0, fmt.Errorf("gguf: write: key %.80q: got it twice or longer than %d bytes, want each key once", kv.Key, MaxKey)
		}
		seen[kv.Key] = true
		if err := checkValue(kv.Value, 0); err != nil {
			return 0, fmt.Errorf("gguf: write: key %q: %w", kv.Key, err)
		}
		if kv.Key == keyAlignment {
			if align, err = alignment(kv.Value, true); err != nil {
				return 0, fmt.Errorf("gguf: write: %w", err)
			}
		}
	}
	return align, nil
}

var errValue = errors.New("got a value that no constructor made, want one of String, Uint32, Strings and so on")

// checkValue refuses values that were put together by hand.
func checkValue(v Value, depth int) error {
	switch data := v.data.(type) {
	case nil:
		if v.Type.size() == 0 || v.Type == TypeBool && v.num > 1 {
			return errValue
		}
	case string:
		if v.Type != TypeString || len(data) > MaxString {
			return errValue
		}
	case []string:
		if v.Type != TypeArray || v.Elem != TypeString || v.Len != len(data) || v.Len > MaxElements {
			return errValue
		}
	case []byte:
		if v.Type != TypeArray || v.Elem.size() == 0 || v.Len > MaxElements || v.Len*v.Elem.size() != len(data) {
			return errValue
		}
	case []Value:
		if v.Type != TypeArray || v.Elem != TypeArray || v.Len != len(data) || depth+1 >= MaxDepth {
			return errValue
		}
		for _, e := range data {
			if e.Type != TypeArray {
				return errValue
			}
			if err := checkValue(e, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkSources(tensors []TensorSource, align uint64) (sizes, offsets []int64, err error) {
	if len(tensors) > MaxTensors {
		return nil, nil, fmt.Errorf("gguf: write: got %d tensors, want at most %d", len(tensors), MaxTensors)
	}
	seen := map[string]bool{}
	next := int64(0)
	for _, t := range tensors {
		if _, bad := nameFault(t.Name, 0, "tensor name", quirkEmptyName); bad != nil {
			return nil, nil, fmt.Errorf("gguf: write: %w", bad)
		}
		if len(t.Name) > MaxName || seen[t.Name] {
			return nil, nil, fmt.Errorf("gguf: write: tensor %.80q: got it twice or longer than %d bytes, want each name once", t.Name, MaxName)
		}
		seen[t.Name] = true
		if len(t.Dims) > MaxDims {
			return nil, nil, fmt.Errorf("gguf: write: tensor %q: got %d dimensions, want at most %d", t.Name, len(t.Dims), MaxDims)
		}
		size, err := t.Type.Size(t.Dims)
		if err != nil {
			return nil, nil, fmt.Errorf("gguf: write: tensor %q: %w", t.Name, err)
		}
		sizes, offsets = append(sizes, size), append(offsets, next)
		padded, ok := pad(size, align)
		if !ok || padded > math.MaxInt64-MaxHeader-next {
			return nil, nil, fmt.Errorf("gguf: write: tensor %q: got %d bytes from offset %d, want a file below 2^63 bytes", t.Name, size, next)
		}
		next += padded
	}
	return sizes, offsets, nil
}

// encoder writes little-endian fields and keeps the first error.
type encoder struct {
	w   *bufio.Writer
	n   int64 // bytes written
	err error
}

func (e *encoder) Write(p []byte) (int, error) {
	if e.err != nil {
		return 0, e.err
	}
	n, err := e.w.Write(p)
	e.n += int64(n)
	e.err = err
	return n, err
}

func (e *encoder) raw(s string) {
	if e.err == nil {
		var n int
		n, e.err = e.w.WriteString(s)
		e.n += int64(n)
	}
}

func (e *encoder) uint(n uint64, size int) {
	var w [8]byte
	binary.LittleEndian.PutUint64(w[:], n)
	_, _ = e.Write(w[:size]) // the error is kept
}

func (e *encoder) string(s string) {
	e.uint(uint64(len(s)), 8)
	e.raw(s)
}

func (e *encoder) kv(kv KV) {
	e.string(kv.Key)
	e.uint(uint64(kv.Value.Type), 4)
	e.value(kv.Value)
}

func (e *encoder) value(v Value) {
	if v.Type == TypeArray {
		e.uint(uint64(v.Elem), 4)
		e.uint(uint64(v.Len), 8)
	}
	switch data := v.data.(type) {
	case nil:
		e.uint(v.num, v.Type.size())
	case string:
		e.string(data)
	case []byte:
		_, _ = e.Write(data) // the error is kept
	case []string:
		for _, s := range data {
			e.string(s)
		}
	case []Value:
		for _, a := range data {
			e.value(a)
		}
	}
}

func (e *encoder) pad(align uint64) {
	padded, _ := pad(e.n, align)
	_, _ = e.Write(make([]byte, padded-e.n)) // the error is kept
}

// tensor lets the source write and checks that it wrote exactly its size.
func (e *encoder) tensor(t TensorSource, size int64) {
	if e.err != nil {
		return
	}
	x := &exact{w: e, left: size}
	if err := t.Data(x); err != nil {
		e.err = fmt.Errorf("gguf: write: tensor %q: %w", t.Name, err)
	} else if x.left != 0 && e.err == nil {
		e.err = fmt.Errorf("gguf: write: tensor %q: got %d bytes, want %d", t.Name, size-x.left, size)
	}
}

// exact passes left bytes on and refuses more.
type exact struct {
	w    io.Writer
	left int64
}

func (x *exact) Write(p []byte) (int, error) {
	if int64(len(p)) > x.left {
		return 0, fmt.Errorf("got %d bytes more than the tensor has", int64(len(p))-x.left)
	}
	n, err := x.w.Write(p)
	x.left -= int64(n)
	return n, err
}
