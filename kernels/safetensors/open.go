package safetensors

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// lfsPrefix starts a Git LFS pointer (https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md).
const lfsPrefix = "version https://git-lfs.github.com/spec/"

// Open reads the header of a file of size bytes and checks that the tensors
// fill the rest of it. Errors are [*FormatError] or those of r. Memory stays
// within a small multiple of the header's own bytes.
func Open(r io.ReaderAt, size int64) (*File, error) {
	f := &File{Size: size, r: r}
	n, err := headerLength(r, size)
	if err != nil {
		return nil, err
	}
	f.HeaderSize = lengthSize + n
	t := newScanner(io.NewSectionReader(r, lengthSize, n), lengthSize)
	err = t.object("header", func(key string) (err error) {
		if key == metadataKey {
			f.Metadata, err = readMetadata(t)
			return err
		}
		info, err := f.readTensor(t, key)
		f.Tensors = append(f.Tensors, info)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := t.end("header"); err != nil {
		return nil, err
	}
	if err := f.layOut(); err != nil {
		return nil, err
	}
	return f, nil
}

// headerLength reads N and compares it with the limit and with the file.
func headerLength(r io.ReaderAt, size int64) (int64, error) {
	start := make([]byte, min(max(size, 0), int64(len(lfsPrefix))))
	if n, err := r.ReadAt(start, 0); n < len(start) {
		return 0, fmt.Errorf("safetensors: byte %d: read: %w", n, err)
	}
	switch {
	case string(start) == lfsPrefix:
		return 0, pointerError("a safetensors file")
	case size < lengthSize:
		return 0, &FormatError{What: "header length", Got: fmt.Sprintf("%d bytes", size), Want: "8 bytes", Next: "the file is truncated"}
	}
	n := binary.LittleEndian.Uint64(start)
	switch {
	case n > MaxHeader:
		return 0, &FormatError{What: "header length", Got: fmt.Sprint(n), Want: fmt.Sprintf("at most %d", MaxHeader), Next: "this is not a safetensors file, or it is damaged"}
	case int64(n) > size-lengthSize:
		return 0, &FormatError{What: "header length", Got: fmt.Sprint(n), Want: fmt.Sprintf("at most %d, the bytes that follow", size-lengthSize), Next: "the file is truncated, or not a safetensors file"}
	}
	return int64(n), nil
}

func pointerError(want string) error {
	return &FormatError{What: "file", Got: "a Git LFS pointer", Want: want, Next: "this is a Git LFS pointer, not the file: fetch the file itself"}
}

// readMetadata reads strings by string. A tensor cannot have this name: a
// reader that takes tensors by name would find one where others find text.
func readMetadata(t *scanner) (map[string]string, error) {
	metadata := map[string]string{}
	err := t.object(metadataKey, func(key string) error {
		b, err := t.next(metadataKey)
		if err != nil {
			return err
		}
		switch {
		case b != '"' && (key == "shape" || key == "data_offsets" || key == "dtype"):
			return t.fail(metadataKey, "a tensor called "+metadataKey, "an object of strings")
		case b != '"':
			return t.unexpected(fmt.Sprintf("%s: %.200q", metadataKey, key), "a string")
		}
		metadata[key], err = t.string(metadataKey)
		return err
	})
	return metadata, err
}

// readTensor reads one tensor's object. Begin and End are relative until layOut.
func (f *File) readTensor(t *scanner, name string) (TensorInfo, error) {
	info, err := f.readFields(t, name)
	if bad, ok := err.(*FormatError); ok && (bad.What == "" || bad.What[0] == ':') {
		bad.What = fmt.Sprintf("tensor %.200q", name) + bad.What // here, not for each of 10,000 tensors
	}
	return info, err
}

func (f *File) readFields(t *scanner, name string) (TensorInfo, error) {
	info := TensorInfo{Name: name}
	var begin, end uint64
	offsets := -1 // how many there are
	err := t.object("", func(key string) error {
		var err error
		switch key {
		case "dtype":
			var s string
			s, err = t.string(": dtype")
			info.DType = DType(s)
			if err == nil && info.DType.Bits() == 0 {
				return t.fail("", fmt.Sprintf("unknown dtype %.40q", s), "a dtype of the format")
			}
		case "shape":
			var shape []uint64
			shape, err = t.numbers(": shape")
			info.Shape = append(make([]uint64, 0, len(shape)), shape...)
		case "data_offsets":
			var list []uint64
			list, err = t.numbers(": data_offsets")
			if offsets = len(list); offsets == 2 {
				begin, end = list[0], list[1]
			}
		default:
			err = t.fail("", fmt.Sprintf("unknown field %.80q", key), "dtype, shape and data_offsets")
		}
		return err
	})
	if err != nil {
		return info, err
	}
	if info.DType == "" || info.Shape == nil || offsets != 2 {
		return info, t.fail("", fmt.Sprintf("dtype %q, shape %v and %d offsets", info.DType, info.Shape, max(offsets, 0)), "all three fields, and two offsets")
	}
	room := uint64(f.Size - f.HeaderSize)
	if begin > end || end > room {
		next := ""
		if end > room {
			next = "the file is truncated"
		}
		return info, &FormatError{Offset: t.offset(), What: ": data_offsets", Got: fmt.Sprintf("[%d, %d)", begin, end),
			Want: fmt.Sprintf("an ordered range within the %d bytes after the header", room), Next: next}
	}
	want, err := info.bytes()
	if err != nil {
		return info, t.fail("", err.Error(), "a size in bytes that fits the file")
	}
	if got := end - begin; got != want {
		return info, t.fail(": data_offsets", fmt.Sprintf("[%d, %d), which is %d bytes", begin, end, got),
			fmt.Sprintf("%d bytes for %s %v", want, info.DType, info.Shape))
	}
	info.Begin, info.End = int64(begin), int64(end)
	return info, nil
}

// bytes computes the size from shape and dtype by checked arithmetic, in order.
func (t TensorInfo) bytes() (uint64, error) {
	n := uint64(1)
	for _, d := range t.Shape {
		over, product := bits.Mul64(n, d)
		if over != 0 {
			return 0, fmt.Errorf("shape %v, whose product overflows 64 bits", t.Shape)
		}
		n = product
	}
	over, total := bits.Mul64(n, uint64(t.DType.Bits()))
	if over != 0 || total > math.MaxInt64 {
		return 0, fmt.Errorf("%s %v, whose size overflows 63 bits", t.DType, t.Shape)
	}
	if total%8 != 0 {
		return 0, fmt.Errorf("%s %v, which is %d bits and not whole bytes", t.DType, t.Shape, total)
	}
	return total / 8, nil
}

// layOut sorts by offset and refuses gaps, overlaps and bytes that no tensor owns.
func (f *File) layOut() error {
	slices.SortFunc(f.Tensors, func(a, b TensorInfo) int {
		return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(a.End, b.End), strings.Compare(a.Name, b.Name))
	})
	f.byName = make(map[string]int, len(f.Tensors))
	next := int64(0)
	owner := func(i int) string { // what ends where tensor i begins
		if i == 0 {
			return "the header"
		}
		return fmt.Sprintf("tensor %.200q", f.Tensors[i-1].Name)
	}
	for i := range f.Tensors {
		t := &f.Tensors[i]
		if t.Begin != next {
			fault := "a gap"
			if t.Begin < next {
				fault = "an overlap"
			}
			return &FormatError{Offset: f.HeaderSize + min(t.Begin, next), What: fmt.Sprintf("tensor %.200q: data_offsets", t.Name),
				Got: fmt.Sprintf("[%d, %d), %s of %d bytes after %s", t.Begin, t.End, fault, max(t.Begin-next, next-t.Begin), owner(i)), Want: fmt.Sprintf("a start at %d", next)}
		}
		next = t.End
		f.byName[t.Name] = i
		t.Begin += f.HeaderSize
		t.End += f.HeaderSize
	}
	if rest := f.Size - f.HeaderSize - next; rest != 0 {
		return &FormatError{Offset: f.HeaderSize + next, What: "end of the file", Got: fmt.Sprintf("%d trailing bytes after %s", rest, owner(len(f.Tensors))), Want: "none",
			Next: "bytes that no tensor owns are not read by anybody and may hide anything"}
	}
	return nil
}
