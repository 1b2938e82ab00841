package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// OrderError tells that the byte order of a type's blocks is defined by nobody.
type OrderError struct {
	Tensor string
	Type   Type
}

func (e *OrderError) Error() string {
	return fmt.Sprintf("gguf: tensor %q: got %s in a big-endian file, want a type whose byte order is defined; convert the little-endian file instead", e.Tensor, e.Type)
}

// field is a number of a block whose bytes a big-endian file turns round.
type field struct{ at, size int } // bytes

// fields lists the numbers of more than one byte within a block. A scalar is one
// number; of the block types those are here whose order llama.cpp's
// gguf_convert_endian.py defines.
var fields = map[Type][]field{
	F32: {{0, 4}}, F16: {{0, 2}}, BF16: {{0, 2}}, F64: {{0, 8}},
	I8: {}, I16: {{0, 2}}, I32: {{0, 4}}, I64: {{0, 8}},
	Q1_0: {{0, 2}}, Q4_0: {{0, 2}}, Q8_0: {{0, 2}},
	Q4_K: {{0, 2}, {2, 2}}, Q6_K: {{208, 2}}, TQ2_0: {{64, 2}},
	MXFP4: {}, NVFP4: {}, // bytes only
}

// Data reads the bytes of a tensor as a little-endian file would hold them,
// whatever the order of this one: digests and values of both are then equal.
// The error is an [*OrderError] for a type whose order nobody defined.
func (f *File) Data(t TensorInfo) (*io.SectionReader, error) {
	raw := f.Section(t)
	if f.Order == binary.LittleEndian {
		return raw, nil
	}
	numbers, defined := fields[t.Type]
	if !defined {
		return nil, &OrderError{t.Name, t.Type}
	}
	if len(numbers) == 0 {
		return raw, nil
	}
	_, block, _ := t.Type.Block()
	return io.NewSectionReader(&turned{raw, int64(block), numbers}, 0, t.Size), nil
}

// turned reads whole blocks of r and turns their numbers round.
type turned struct {
	r       *io.SectionReader
	block   int64 // bytes
	numbers []field
}

// turnedAtOnce bounds what is read ahead of a small request, in bytes.
const turnedAtOnce = 64 << 10

func (t *turned) ReadAt(p []byte, off int64) (int, error) {
	buf := make([]byte, (min(int64(len(p)), turnedAtOnce)/t.block+2)*t.block)
	n := 0
	for n < len(p) {
		from := (off + int64(n)) / t.block * t.block
		got, err := t.r.ReadAt(buf, from)
		whole := buf[:int64(got)/t.block*t.block] // a tensor is whole blocks
		for b := whole; len(b) > 0; b = b[t.block:] {
			for _, f := range t.numbers {
				slices.Reverse(b[f.at : f.at+f.size])
			}
		}
		skip := min(off+int64(n)-from, int64(len(whole)))
		copied := copy(p[n:], whole[skip:])
		n += copied
		if copied == 0 {
			if err == nil {
				err = io.ErrUnexpectedEOF
			}
			return n, err
		}
	}
	return n, nil
}
