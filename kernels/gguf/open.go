package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

const (
	magic        = "GGUF"
	keyAlignment = "general.alignment"
)

// Open reads the header of a file of size bytes and checks that the tensors
// fill the rest of it. It reads the header and the padding, never tensor data.
// Errors are [*FormatError], [*TruncatedError] or those of r.
//
// Memory stays within a small multiple of the header's own bytes, see the limits.
func Open(r io.ReaderAt, size int64) (*File, error) {
	f, err := open(Part{R: r, Size: size}, false)
	if err == nil {
		err = f.checkWhole()
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// open opens a file that may be a part, leniently where a reader in use would load what is refused here.
func open(p Part, lenient bool) (*File, error) {
	if p.Size < 0 {
		return nil, fmt.Errorf("gguf: got a file of %d bytes, want 0 or more", p.Size)
	}
	f := &File{Size: p.Size, Parts: []Part{p}, kvs: map[string]int{}, tensors: map[string]int{}, notes: &notes{lenient: lenient}}
	c := newCursor(p.R, p.Size, f.notes)
	tensors, kvs, err := f.readPreamble(c)
	if err != nil {
		return nil, err
	}
	if err := f.readKVs(c, kvs); err != nil {
		return nil, err
	}
	if err := f.readAlignment(); err != nil {
		return nil, err
	}
	relative, err := f.readTensors(c, tensors)
	if err != nil {
		return nil, err
	}
	if err := f.layOut(c.off, relative); err != nil {
		return nil, err
	}
	f.headers = []int64{f.DataOffset}
	return f, nil
}

// readPreamble reads magic, version and the two counts.
func (f *File) readPreamble(c *cursor) (tensors, kvs int, err error) {
	head := make([]byte, 8)
	n := min(len(head), int(min(c.size, 8)))
	if err := c.full(head[:n], "magic and version"); err != nil {
		return 0, 0, err
	}
	switch {
	case bytes.HasPrefix(head, []byte("version ")):
		return 0, 0, &FormatError{What: "magic", Got: "a Git LFS pointer", Want: "a GGUF file", Next: "this is a Git LFS pointer, not the file: fetch the file itself"}
	case n < 4 || string(head[:4]) != magic:
		return 0, 0, &FormatError{What: "magic", Got: fmt.Sprintf("%q", head[:min(n, 4)]), Want: fmt.Sprintf("%q", magic), Next: "this is not a GGUF file"}
	case n < 8:
		return 0, 0, &FormatError{Offset: 4, What: "version", Got: fmt.Sprintf("%d bytes", n-4), Want: "4 bytes", Next: "the file is truncated"}
	}
	f.Version = binary.LittleEndian.Uint32(head[4:])
	if f.Version&0xffff == 0 { // a small number with its bytes the other way round
		c.order = binary.BigEndian
		_ = f.notes.note(quirkBigEndian, nil) // read here
		f.Version = binary.BigEndian.Uint32(head[4:])
	}
	f.Order = c.order
	switch f.Version {
	case 2, 3:
	case 1:
		return 0, 0, &FormatError{Offset: 4, What: "version", Got: "1", Want: "2 or 3", Next: "version 1 of GGUF (2023) is not read; convert the model again with a current converter"}
	default:
		return 0, 0, &FormatError{Offset: 4, What: "version", Got: fmt.Sprint(f.Version), Want: "2 or 3", Next: "the file is newer than this reader, or damaged"}
	}
	// A tensor takes at least name length 8, one byte of name, dimensions 4, type 4, offset 8;
	// a key at least length 8, one byte, type 4, one byte.
	if tensors, err = c.count("number of tensors", 25, MaxTensors); err != nil {
		return 0, 0, err
	}
	kvs, err = c.count("number of key-value pairs", 14, MaxKVs)
	return tensors, kvs, err
}

func (f *File) readKVs(c *cursor, n int) error {
	for i := range n {
		at := c.off
		key, err := c.string(fmt.Sprintf("key %d", i), MaxKey)
		if err != nil {
			return err
		}
		if q, bad := nameFault(key, at, fmt.Sprintf("key %d", i), quirkEmptyKey); bad != nil {
			if err := f.notes.note(q, bad); err != nil {
				return err
			}
		}
		if _, dup := f.kvs[key]; dup {
			return &FormatError{Offset: at, What: fmt.Sprintf("key %d", i), Got: fmt.Sprintf("%q a second time", key), Want: "each key once", Next: "readers disagree about which value counts"}
		}
		what := fmt.Sprintf("key %q", key)
		code, err := c.uint32(what + ": type")
		if err != nil {
			return err
		}
		v, err := c.value(what, ValueType(code), 0)
		if err != nil {
			return err
		}
		f.kvs[key] = len(f.KVs)
		f.KVs = append(f.KVs, KV{Key: key, Value: v})
	}
	return nil
}

// checkWhole refuses one part of a model that was split: judged alone it would
// look like a whole model with few tensors.
func (f *File) checkWhole() error {
	no, count, err := f.splitNumbers()
	if err != nil || count <= 1 {
		return err
	}
	return &FormatError{What: "key \"" + keySplits + "\"", Got: fmt.Sprintf("part %d of %d of a split file", no+1, count),
		Want: "a whole file", Next: "open all parts together, or merge them with llama-gguf-split --merge"}
}

// readAlignment takes general.alignment. Readers in use take any power of two.
func (f *File) readAlignment() error {
	v, ok := f.KV(keyAlignment)
	a, err := alignment(v, ok)
	if err != nil && v.Type == TypeUint32 && v.num != 0 && v.num&(v.num-1) == 0 {
		a, err = v.num, f.notes.note(quirkAlignment, err)
	}
	f.Alignment = a
	return err
}

// alignment judges general.alignment, whose offset is not kept: the key names it.
func alignment(v Value, ok bool) (uint64, error) {
	if !ok {
		return DefaultAlignment, nil
	}
	bad := &FormatError{What: "key \"" + keyAlignment + "\"", Want: fmt.Sprintf("a UINT32 that is a power of two, from 8 to %d", MaxAlignment)}
	if v.Type != TypeUint32 {
		bad.Got = v.Type.String()
		return 0, bad
	}
	if a := v.num; a < 8 || a > MaxAlignment || a&(a-1) != 0 {
		bad.Got = fmt.Sprint(a)
		return 0, bad
	}
	return v.num, nil
}

// nameFault judges a key or a tensor name. A NUL ends the name for C readers
// and not for others, so two readers would see two files.
func nameFault(name string, at int64, what string, empty quirk) (quirk, *FormatError) {
	bad := &FormatError{Offset: at, What: what, Got: fmt.Sprintf("%q", name)}
	switch {
	case name == "":
		bad.Got, bad.Want = "an empty name", "at least one byte"
		return empty, bad
	case strings.ContainsRune(name, 0):
		bad.Want = "a name without NUL bytes"
		return quirkNUL, bad
	case !utf8.ValidString(name):
		bad.Want = "UTF-8"
		return quirkUTF8, bad
	}
	return 0, nil
}
