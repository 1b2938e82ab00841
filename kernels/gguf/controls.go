package gguf

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
)

// plan is a header to be encoded without any check, before a file's own data.
type plan struct {
	version       uint64
	tensorCount   uint64
	kvCount       uint64
	kvs           []KV
	tensors       []TensorInfo
	offsets       []uint64 // relative to the tensor data
	alignment     uint64   // bytes
	paddingByte   byte     // what the padding before the data is made of
	trailing      int64    // bytes added at the end
	cut           int64    // bytes of the tensor data taken off its end
	headerTrimmed bool     // the file ends within the header
}

// newPlan describes a file as it is. It has at least one tensor.
func newPlan(f *File) *plan {
	p := &plan{version: 3, tensorCount: uint64(len(f.Tensors)), kvCount: uint64(len(f.KVs)), kvs: slices.Clone(f.KVs),
		tensors: slices.Clone(f.Tensors), alignment: f.Alignment}
	for _, t := range f.Tensors {
		p.offsets = append(p.offsets, uint64(t.Offset-f.DataOffset))
	}
	return p
}

func (p *plan) add(key string, v Value) {
	p.kvs = append(slices.DeleteFunc(p.kvs, func(kv KV) bool { return kv.Key == key }), KV{key, v})
	p.kvCount = uint64(len(p.kvs))
}

// view encodes the plan and lays it before the tensor data of f.
func (p *plan) view(f *File) (io.ReaderAt, int64) {
	var head bytes.Buffer
	e := &encoder{w: bufio.NewWriter(&head)}
	e.raw(magic)
	e.uint(p.version, 4)
	e.uint(p.tensorCount, 8)
	e.uint(p.kvCount, 8)
	for _, kv := range p.kvs {
		e.string(kv.Key)
		e.uint(uint64(kv.Value.Type), 4)
		e.value(kv.Value)
	}
	for i, t := range p.tensors {
		e.string(t.Name)
		e.uint(uint64(len(t.Dims)), 4)
		for _, d := range t.Dims {
			e.uint(d, 8)
		}
		e.uint(uint64(t.Type), 4)
		e.uint(p.offsets[i], 8)
	}
	_ = e.w.Flush() // to memory
	if p.headerTrimmed {
		return bytes.NewReader(head.Bytes()), int64(head.Len()) - 1
	}
	padded, _ := pad(int64(head.Len()), p.alignment)
	head.Write(bytes.Repeat([]byte{p.paddingByte}, int(padded)-head.Len()))
	size := padded + f.Size - f.DataOffset - p.cut
	return spliced{head.Bytes(), f.Parts[0].R, f.DataOffset, size}, size + p.trailing
}

// spliced reads head, then r from the given offset up to size bytes in all, then zeros.
type spliced struct {
	head []byte
	r    io.ReaderAt
	from int64
	size int64
}

func (s spliced) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	n := 0
	if off < int64(len(s.head)) {
		n = copy(p, s.head[off:])
	}
	if rest := min(int64(len(p)-n), s.size-off-int64(n)); rest > 0 {
		if m, err := s.r.ReadAt(p[n:n+int(rest)], off+int64(n)-int64(len(s.head))+s.from); m < int(rest) {
			return n + m, err
		}
	}
	return len(p), nil
}

// control plants one fault in a copy of the header; the refusal has to say want.
type control struct {
	name, fault, want string
	change            func(p *plan, f *File)
}

var controls = []control{
	{"a key given twice", "duplicate key", "a second time, want each key once", func(p *plan, _ *File) {
		p.add("weighmaster.control", Bool(true))
		p.kvs = append(p.kvs, p.kvs[len(p.kvs)-1])
		p.kvCount++
	}},
	{"a tensor given twice", "duplicate tensor name", "a second time, want each name once", func(p *plan, _ *File) {
		p.tensors, p.offsets = append(p.tensors, p.tensors[0]), append(p.offsets, p.offsets[0])
		p.tensorCount++
	}},
	{"a NUL in a tensor name", "name with a NUL", "without NUL", func(p *plan, _ *File) { p.tensors[0].Name += "\x00" }},
	{"dimensions whose product wraps to zero", "overflowing size", "want at most", func(p *plan, _ *File) { p.tensors[0].Dims = []uint64{1 << 32, 1 << 32} }},
	{"a dimension of zero", "zero dimension", "got zero", func(p *plan, _ *File) { p.tensors[0].Dims = []uint64{0, 4} }},
	{"tensor type 99", "unknown tensor type", "unknown tensor type 99", func(p *plan, _ *File) { p.tensors[0].Type = 99 }},
	{"the last offset one alignment further", "gap or overlap", "have to follow each other", func(p *plan, _ *File) {
		p.offsets[len(p.offsets)-1] += p.alignment
	}},
	{"the last byte of the last tensor cut off", "truncated data", "tensors are missing or cut", func(p *plan, f *File) {
		last := f.Tensors[len(f.Tensors)-1]
		p.cut = f.Size - (last.Offset + last.Size) + 1
	}},
	{"the last byte of the header cut off", "truncated header", "truncated", func(p *plan, _ *File) { p.headerTrimmed = true }},
	{"one alignment of zeros appended", "bytes after the last tensor", "bytes after the last tensor", func(p *plan, _ *File) { p.trailing = 2 * int64(p.alignment) }},
	{"padding of ones", "padding that is not zero", "want zeros", func(p *plan, f *File) {
		p.paddingByte = 1
		for n := 1; n < 3; n++ { // one of two lengths needs padding
			p.add("weighmaster.control", String(strings.Repeat("x", n)))
			if _, size := p.view(f); size-(f.Size-f.DataOffset) > p.headerLength(f) {
				return
			}
		}
	}},
	{"a BOOL of 2", "bool that is neither 0 nor 1", "want 0 or 1", func(p *plan, _ *File) {
		p.add("weighmaster.control", Value{Type: TypeBool, num: 2})
	}},
	{"alignment 12", "bad alignment", "a power of two", func(p *plan, _ *File) { p.add(keyAlignment, Uint32(12)) }},
	{"2^60 keys", "count beyond the file", "want at most", func(p *plan, _ *File) { p.kvCount = 1 << 60 }},
	{"an array of 2^60 elements", "length beyond the file", "want at most", func(p *plan, _ *File) {
		p.add("weighmaster.control", Value{Type: TypeArray, Elem: TypeUint8, Len: 1 << 60, data: []byte{}})
	}},
	{"part 2 of 3", "part of a split file", "part 2 of 3 of a split file", func(p *plan, _ *File) {
		p.add(keySplits, Uint16(3))
		p.add(keySplitNo, Uint16(1))
	}},
	{"version 1", "version that is not read", "version 1 of GGUF", func(p *plan, _ *File) { p.version = 1 }},
}

// headerLength is the number of header bytes before the padding.
func (p *plan) headerLength(f *File) int64 {
	trimmed := *p
	trimmed.headerTrimmed = true
	_, size := trimmed.view(f)
	return size + 1
}

// plant runs every control over a file that was accepted and has tensors.
func plant(ctx context.Context, c *kernels.Controls, f *File) error {
	for _, control := range controls {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := newPlan(f)
		control.change(p, f)
		_, err := Open(p.view(f))
		c.Add(judge(control.name, control.fault, control.want, err))
	}
	for _, control := range splitControls {
		pair := samplePair()
		_, err := OpenSplit(control.change(pair[0], pair[1]))
		c.Add(judge(control.name, control.fault, control.want, err))
	}
	return nil
}

// judge tells whether a refusal says what it has to.
func judge(name, fault, want string, err error) kernels.ControlResult {
	result := kernels.ControlResult{Name: name, Fault: fault, Detail: "the file was accepted"}
	if err != nil {
		result.Detail = err.Error()
		result.Red = strings.Contains(result.Detail, want)
	}
	return result
}
