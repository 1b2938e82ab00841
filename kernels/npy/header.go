package npy

import (
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ReadHeader reads up to the first byte of the data. It refuses other format
// versions, big-endian and unknown element types, and Fortran order.
func ReadHeader(r io.Reader) (Header, error) {
	var start [8]byte
	if _, err := io.ReadFull(r, start[:]); err != nil {
		return Header{}, fmt.Errorf("npy: magic: %w", err)
	}
	if string(start[:6]) != magic {
		return Header{}, fmt.Errorf("npy: magic: got %q, want %q; not a .npy file", start[:6], magic)
	}
	width := 2
	switch {
	case start[6] == 1 && start[7] == 0:
	case start[6] == 2 && start[7] == 0:
		width = 4
	default:
		return Header{}, fmt.Errorf("npy: version: got %d.%d, want 1.0 or 2.0", start[6], start[7])
	}
	var length [4]byte
	if _, err := io.ReadFull(r, length[:width]); err != nil {
		return Header{}, fmt.Errorf("npy: header length: %w", err)
	}
	n := binary.LittleEndian.Uint32(length[:])
	if n == 0 || n > maxHeader {
		return Header{}, fmt.Errorf("npy: header length: got %d bytes, want 1 to %d", n, maxHeader)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return Header{}, fmt.Errorf("npy: header: got fewer than its %d bytes: %w", n, err)
	}
	dict, ok := strings.CutSuffix(string(text), "\n")
	if !ok {
		return Header{}, fmt.Errorf("npy: header: got no line feed at its end")
	}
	return parse(strings.TrimRight(dict, " "))
}

// parse reads the dictionary. Only what repr() of such a dictionary gives is
// accepted: single quotes, one space after a colon or comma, keys in any order.
func parse(dict string) (Header, error) {
	var h Header
	rest, ok := strings.CutPrefix(dict, "{")
	if ok {
		rest, ok = strings.CutSuffix(rest, "}")
	}
	if !ok {
		return h, fmt.Errorf("npy: header: got %q, want a dictionary in braces", dict)
	}
	seen := map[string]bool{}
	for rest = strings.TrimSuffix(rest, ", "); rest != ""; {
		key, after, ok := strings.Cut(rest, ": ")
		if !ok {
			return h, fmt.Errorf("npy: header: got %q, want a key and a value", rest)
		}
		if seen[key] {
			return h, fmt.Errorf("npy: header: got key %s twice", key)
		}
		seen[key] = true
		var value string
		end := strings.Index(after, ", ")
		if strings.HasPrefix(after, "(") {
			if end = strings.Index(after, ")"); end < 0 {
				return h, fmt.Errorf("npy: header: got %q, want a tuple", after)
			}
			end++
		} else if end < 0 {
			end = len(after)
		}
		value, rest = after[:end], after[end:]
		if rest != "" {
			if rest, ok = strings.CutPrefix(rest, ", "); !ok || rest == "" {
				return h, fmt.Errorf("npy: header: got %q after %s, want a comma and the next key", rest, key)
			}
		}
		if err := h.set(key, value); err != nil {
			return h, err
		}
	}
	if len(seen) != 3 {
		return h, fmt.Errorf("npy: header: got %d keys, want descr, fortran_order and shape", len(seen))
	}
	return h, nil
}

func (h *Header) set(key, value string) error {
	switch key {
	case "'descr'":
		for _, d := range []string{Descr[float32](), Descr[float64](), Descr[int32](), Descr[int64]()} {
			if value == "'"+d+"'" {
				h.Descr = d
				return nil
			}
		}
		return fmt.Errorf("npy: descr: got %s, want '<f4', '<f8', '<i4' or '<i8'", value)
	case "'fortran_order'":
		if value != "False" {
			return fmt.Errorf("npy: fortran_order: got %s, want False", value)
		}
		return nil
	case "'shape'":
		shape, err := parseTuple(value)
		h.Shape = shape
		return err
	}
	return fmt.Errorf("npy: header: got key %s, want 'descr', 'fortran_order' or 'shape'", key)
}

func parseTuple(value string) ([]int, error) {
	bad := fmt.Errorf("npy: shape: got %q, want a tuple of sizes as Python writes it", value)
	if len(value) < 2 || value[0] != '(' || value[len(value)-1] != ')' {
		return nil, bad
	}
	shape := []int{}
	for _, s := range strings.FieldsFunc(value[1:len(value)-1], func(r rune) bool { return r == ',' || r == ' ' }) {
		d, err := strconv.ParseInt(s, 10, 64)
		if err != nil || len(shape) == maxDims {
			return nil, bad
		}
		shape = append(shape, int(d))
	}
	if tuple(shape) != value {
		return nil, bad
	}
	if _, err := count(shape); err != nil {
		return nil, err
	}
	return shape, nil
}
