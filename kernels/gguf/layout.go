package gguf

import (
	"fmt"
	"io"
	"math"
	"slices"
)

// readTensors reads the tensor infos and returns the offset that each states,
// relative to the tensor data.
func (f *File) readTensors(c *cursor, n int) (relative []uint64, err error) {
	for i := range n {
		at := c.off
		t := TensorInfo{}
		if t.Name, err = c.string(fmt.Sprintf("name of tensor %d", i), MaxName); err != nil {
			return nil, err
		}
		if q, bad := nameFault(t.Name, at, fmt.Sprintf("name of tensor %d", i), quirkEmptyName); bad != nil {
			if err := f.notes.note(q, bad); err != nil {
				return nil, err
			}
		}
		if _, dup := f.tensors[t.Name]; dup {
			return nil, &FormatError{Offset: at, What: fmt.Sprintf("name of tensor %d", i), Got: fmt.Sprintf("%q a second time", t.Name), Want: "each name once"}
		}
		if len(t.Name) >= NameWarning {
			_ = f.notes.note(quirkLongName, nil) // read here
			f.Warnings = append(f.Warnings, fmt.Sprintf("tensor %q: a name of %d bytes; llama.cpp reads at most %d", t.Name, len(t.Name), NameWarning-1))
		}
		offset, err := t.read(c)
		if err != nil {
			return nil, err
		}
		f.tensors[t.Name] = len(f.Tensors)
		f.Tensors = append(f.Tensors, t)
		relative = append(relative, offset)
	}
	return relative, nil
}

// read reads dimensions, type and offset.
func (t *TensorInfo) read(c *cursor) (offset uint64, err error) {
	what := fmt.Sprintf("tensor %q", t.Name)
	dims, err := c.uint32(what + ": number of dimensions")
	if err != nil {
		return 0, err
	}
	if dims > MaxDims {
		return 0, &FormatError{Offset: c.off - 4, What: what + ": number of dimensions", Got: fmt.Sprint(dims), Want: fmt.Sprintf("at most %d", MaxDims)}
	}
	at := c.off
	for range dims {
		d, err := c.uint64(what + ": dimension")
		if err != nil {
			return 0, err
		}
		t.Dims = append(t.Dims, d)
	}
	code, err := c.uint32(what + ": type")
	if err != nil {
		return 0, err
	}
	t.Type = Type(code)
	if _, _, known := t.Type.Block(); !known {
		return 0, &FormatError{Offset: c.off - 4, What: what, Got: t.Type.String(), Want: "a type of this version of the format",
			Next: "the file may be newer than this reader, or of a fork"}
	}
	if t.Size, err = t.Type.Size(t.Dims); err != nil {
		bad := &FormatError{Offset: at, What: what, Got: err.Error(), Want: "dimensions that its type can hold"}
		if !t.empty() {
			return 0, bad
		}
		if err := c.notes.note(quirkZeroDimension, bad); err != nil {
			return 0, err
		}
	}
	return c.uint64(what + ": offset")
}

// empty tells whether a dimension of zero is all that is wrong with the dimensions.
func (t *TensorInfo) empty() bool {
	dims := slices.Clone(t.Dims)
	zero := false
	for i, d := range dims {
		if d == 0 {
			dims[i], zero = 1, true
			if i == 0 {
				dims[i], _, _ = t.Type.Block()
			}
		}
	}
	_, err := t.Type.Size(dims)
	return zero && err == nil
}

// layOut turns relative offsets into absolute ones and checks that the tensors,
// each padded with zeros to the alignment, follow each other without a gap and
// end where the file ends.
func (f *File) layOut(header int64, relative []uint64) error {
	start, ok := pad(header, f.Alignment)
	if !ok {
		return &FormatError{Offset: header, What: "header", Got: "an end beyond 2^63", Want: "a file"}
	}
	if len(f.Tensors) == 0 { // padding is optional where nothing follows
		f.DataOffset = min(start, f.Size)
		return f.checkEnd(header, start)
	}
	f.DataOffset = start
	next := start // where the next tensor has to start
	end := start  // where the last one ended
	for i := range f.Tensors {
		t := &f.Tensors[i]
		what := fmt.Sprintf("tensor %q: offset", t.Name)
		if relative[i] != uint64(next-start) {
			err := f.notes.note(quirkOffsets, &FormatError{Offset: next, What: what, Got: fmt.Sprintf("%d", relative[i]), Want: fmt.Sprintf("%d", next-start),
				Next: "tensors have to follow each other, with padding to the alignment only"})
			if err != nil {
				return err
			}
			if relative[i] > uint64(math.MaxInt64-start) {
				return &FormatError{Offset: start, What: what, Got: fmt.Sprint(relative[i]), Want: "an offset below 2^63"}
			}
			next = start + int64(relative[i])
		}
		t.Offset = next
		if t.Size > math.MaxInt64-next {
			return &FormatError{Offset: next, What: what, Got: fmt.Sprintf("%d bytes from here", t.Size), Want: "sizes whose sum stays below 2^63"}
		}
		end = max(end, next+t.Size)
		if next, ok = pad(next+t.Size, f.Alignment); !ok {
			return &FormatError{Offset: end, What: what, Got: "an end beyond 2^63", Want: "sizes whose sum stays below 2^63"}
		}
	}
	if f.Size < end {
		return f.truncated(end)
	}
	if err := f.checkZero("padding before the tensor data", header, start); err != nil {
		return err
	}
	for i := 1; i < len(f.Tensors) && !slices.Contains(f.notes.found, quirkOffsets); i++ {
		before := f.Tensors[i-1]
		if err := f.checkZero(fmt.Sprintf("padding after tensor %q", before.Name), before.Offset+before.Size, f.Tensors[i].Offset); err != nil {
			return err
		}
	}
	padded, _ := pad(end, f.Alignment)
	return f.checkEnd(end, padded)
}

// checkEnd judges what follows end, where the last thing ends: nothing, or zeros up to padded.
func (f *File) checkEnd(end, padded int64) error {
	switch {
	case f.Size == end:
		if end != padded && len(f.Tensors) > 0 {
			_ = f.notes.note(quirkNoFinalPadding, nil) // read here
			f.Warnings = append(f.Warnings, fmt.Sprintf("the file ends with its last tensor at byte %d; llama.cpp pads to %d", end, padded))
		}
		return nil
	case f.Size != padded:
		return f.notes.note(quirkTrailing, &FormatError{Offset: end, What: "end of the file", Got: fmt.Sprintf("%d bytes after the last tensor", f.Size-end),
			Want: fmt.Sprintf("%d bytes of padding", padded-end), Next: "bytes that no tensor owns are not read by anybody and may hide anything"})
	}
	return f.checkZero("padding after the last tensor", end, padded)
}

func (f *File) truncated(end int64) error {
	e := &TruncatedError{Size: f.Size, Want: end, Total: len(f.Tensors)}
	for _, t := range f.Tensors {
		if t.Offset+t.Size > f.Size {
			e.Missing = append(e.Missing, t.Name)
		}
	}
	return e
}

// checkZero reads [from, to), at most one alignment.
func (f *File) checkZero(what string, from, to int64) error {
	b := make([]byte, min(to-from, 4<<10))
	for from < to {
		b = b[:min(to-from, int64(len(b)))]
		if n, err := f.Parts[0].R.ReadAt(b, from); n < len(b) {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("gguf: byte %d: %s: %w", from, what, err)
		}
		if i := slices.IndexFunc(b, func(x byte) bool { return x != 0 }); i >= 0 {
			return f.notes.note(quirkPadding, &FormatError{Offset: from + int64(i), What: what, Got: fmt.Sprintf("byte 0x%02x", b[i]), Want: "zeros"})
		}
		from += int64(len(b))
	}
	return nil
}

// pad rounds up to a multiple of the alignment, a power of two.
func pad(n int64, alignment uint64) (int64, bool) {
	a := int64(alignment) - 1
	return (n + a) &^ a, n <= math.MaxInt64-a
}
