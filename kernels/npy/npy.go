// Package npy reads and writes NumPy's .npy array files, formats 1.0 and 2.0:
// little-endian integers and floats in C order, the form in which arrays are kept as evidence.
//
// A file is the magic "\x93NUMPY", two version bytes, the header's length
// (little-endian, 2 bytes in version 1, 4 in version 2), the header and the data.
// The header is a Python dictionary with exactly the keys descr,
// fortran_order and shape, padded with spaces and ended by a line feed.
//
// Specification: numpy.lib.format (NEP 1).
package npy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

const (
	magic = "\x93NUMPY"
	// maxHeader bounds the header, in bytes. NumPy's own reader stops at 10,000 unless told to trust the file.
	maxHeader = 10000
	// maxDims bounds the number of dimensions.
	maxDims = 32
	// chunk is how many bytes are read before memory for the next is taken, so
	// that a shape costs nothing that the file does not hold.
	chunk = 1 << 20
)

// Element is a type that an array may hold.
type Element interface {
	float32 | float64 | int32 | int64
}

// Header describes an array.
type Header struct {
	Descr string // e.g. "<f4"
	Shape []int  // empty for a single value
}

// Descr is the file's name of an element type.
func Descr[T Element]() string {
	switch any(*new(T)).(type) {
	case float32:
		return "<f4"
	case float64:
		return "<f8"
	case int32:
		return "<i4"
	default:
		return "<i8"
	}
}

// Write writes data, row-major in the given shape, as format 1.0 with the
// header that NumPy itself writes.
func Write[T Element](w io.Writer, shape []int, data []T) error {
	n, err := count(shape)
	if err != nil {
		return err
	}
	if n != len(data) {
		return fmt.Errorf("npy: shape %v: got %d values, want %d", shape, len(data), n)
	}
	dict := "{'descr': '" + Descr[T]() + "', 'fortran_order': False, 'shape': " + tuple(shape) + ", }"
	const fixed = len(magic) + 4
	pad := (64 - (fixed+len(dict)+1)%64) % 64
	head := append([]byte(magic), 1, 0)
	head = binary.LittleEndian.AppendUint16(head, uint16(len(dict)+pad+1))
	head = append(head, dict+strings.Repeat(" ", pad)+"\n"...)
	if _, err := w.Write(head); err != nil {
		return err
	}
	size := binary.Size(*new(T))
	for len(data) > 0 {
		n := min(len(data), chunk/size)
		buf, err := binary.Append(nil, binary.LittleEndian, data[:n])
		if err != nil {
			return err
		}
		if _, err := w.Write(buf); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// Read reads one whole file of elements T. Any other element type, Fortran
// order, a short file and bytes after the data are refused. The data may take at most limit bytes.
func Read[T Element](r io.Reader, limit int64) (shape []int, data []T, err error) {
	h, err := ReadHeader(r)
	if err != nil {
		return nil, nil, err
	}
	if want := Descr[T](); h.Descr != want {
		return nil, nil, fmt.Errorf("npy: descr: got %q, want %q", h.Descr, want)
	}
	n, err := count(h.Shape)
	if err != nil {
		return nil, nil, err
	}
	size := binary.Size(*new(T))
	if int64(n) > limit/int64(size) {
		return nil, nil, fmt.Errorf("npy: shape %v: got %d values of %d bytes, want at most %d bytes", h.Shape, n, size, limit)
	}
	for len(data) < n {
		buf := make([]byte, min(n-len(data), chunk/size)*size)
		if _, err := io.ReadFull(r, buf); err != nil {
			return nil, nil, fmt.Errorf("npy: data: got fewer than the %d values of shape %v: %w", n, h.Shape, err)
		}
		part := make([]T, len(buf)/size)
		if _, err := binary.Decode(buf, binary.LittleEndian, part); err != nil {
			return nil, nil, err
		}
		data = append(data, part...)
	}
	if k, err := io.ReadFull(r, make([]byte, 1)); k > 0 {
		return nil, nil, errors.New("npy: got bytes after the data, want the end of the file")
	} else if err != io.EOF {
		return nil, nil, err
	}
	return h.Shape, data, nil
}

// count is the number of values of a shape, by checked arithmetic.
func count(shape []int) (int, error) {
	if len(shape) > maxDims {
		return 0, fmt.Errorf("npy: shape: got %d dimensions, want at most %d", len(shape), maxDims)
	}
	n := 1
	for _, d := range shape {
		if d < 0 || d > 0 && n > math.MaxInt64/8/d {
			return 0, fmt.Errorf("npy: shape %v: got a negative or too large number of values", shape)
		}
		n *= d
	}
	return n, nil
}

// tuple spells a shape as Python does.
func tuple(shape []int) string {
	if len(shape) == 1 {
		return "(" + strconv.Itoa(shape[0]) + ",)"
	}
	s := make([]string, len(shape))
	for i, d := range shape {
		s[i] = strconv.Itoa(d)
	}
	return "(" + strings.Join(s, ", ") + ")"
}
