// Package gguf reads and writes GGUF model files, the format of llama.cpp, as
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md specifies it.
//
// Reading is strict: versions 2 and 3 in either byte order, every number
// checked against what the file can hold before it is used, no gaps, no
// overlaps, no bytes that no tensor owns. What is refused is refused with its
// offset, what stands there and what should. Tensor data is never loaded.
//
// A split model opens as one file, see [OpenSplit]. Tensor data comes out
// little-endian from [File.Data], whatever the file's order.
//
// Where readers in use differ, or all load what is refused here, the file's
// [File.Profiles] (and [Refused] for a file that is not opened) name them: a
// dimension of zero and bytes after the last tensor are refused here, a name of
// [NameWarning] bytes and more is a warning, and so on.
//
// Writing produces the bytes that llama.cpp's own writer produces from the same
// keys and tensors: version 3, little-endian, zero padding.
package gguf

import (
	"encoding/binary"
	"io"
)

// TensorInfo describes one tensor of a file.
type TensorInfo struct {
	Name string
	// Dims are the numbers of elements in ggml order: the fastest first, so a
	// matrix of R rows and C columns is [C, R]. Up to 4, none is a scalar.
	Dims []uint64
	Type Type
	// Offset and Size are the absolute byte range [Offset, Offset+Size) in its file.
	Offset, Size int64
	Part         int // position of its file in [File.Parts], 0 where the model is one file
}

// Elements is the number of elements.
func (t TensorInfo) Elements() uint64 {
	n := uint64(1)
	for _, d := range t.Dims {
		n *= d // Type.Size refused a product that overflows
	}
	return n
}

// Part is one file of a model: the only one, or one of several that it was split into.
type Part struct {
	Name string // file name for messages, compared with split.no where it is that of a part; may be empty
	R    io.ReaderAt
	Size int64 // bytes
}

// File is a parsed header, or those of all parts of a split model as if they
// were one. Its fields are not to be changed.
type File struct {
	Version    uint32
	Order      binary.ByteOrder // of the header and of the tensor data, see [File.Section] and [File.Data]
	Alignment  uint64           // bytes, of the first part
	KVs        []KV             // in file order; of a split model those of the first part without split.*
	Tensors    []TensorInfo     // in file order, which is also the order of parts and offsets
	DataOffset int64            // bytes from the start of the first part to its tensor data
	Size       int64            // bytes of all parts
	Parts      []Part           // in the order of split.no
	Warnings   []string         // what other readers may refuse

	kvs     map[string]int
	tensors map[string]int
	splitNo uint64
	headers []int64 // bytes before the tensor data of each part
	notes   *notes
}

// KV finds the value of a key.
func (f *File) KV(key string) (Value, bool) {
	i, ok := f.kvs[key]
	if !ok {
		return Value{}, false
	}
	return f.KVs[i].Value, true
}

// Tensor finds a tensor by name.
func (f *File) Tensor(name string) (TensorInfo, bool) {
	i, ok := f.tensors[name]
	if !ok {
		return TensorInfo{}, false
	}
	return f.Tensors[i], true
}

// Section reads the bytes of a tensor of this file as they stand there; see [File.Data] for big-endian files.
func (f *File) Section(t TensorInfo) *io.SectionReader {
	return io.NewSectionReader(f.Parts[t.Part].R, t.Offset, t.Size)
}

// Source gives a tensor of this file to [Write].
func (f *File) Source(t TensorInfo) TensorSource {
	return TensorSource{Name: t.Name, Dims: t.Dims, Type: t.Type, Data: func(w io.Writer) error {
		data, err := f.Data(t)
		if err != nil {
			return err
		}
		_, err = io.Copy(w, data)
		return err
	}}
}
