// Package safetensors reads the headers of safetensors files and of the folders
// (snapshots) that publishers split models into, as
// https://github.com/huggingface/safetensors#format specifies them.
//
// A file is 8 bytes N (little-endian), N bytes of JSON, and the tensors' bytes.
// Reading is stricter than the reference where that one lets two readers see
// two files: a key that comes twice, at any level, is refused, and so is a field
// of a tensor that nobody defined. JSON white space may stand around the object.
// Scalars and tensors without elements are legal; sizes are counted in bits, as
// there are types of fewer than 8. Tensor data is never read.
package safetensors

import (
	"fmt"
	"io"
)

const (
	// MaxHeader is the largest N in bytes that the format allows.
	MaxHeader = 100_000_000
	// MaxIndex is the largest index in bytes that is read.
	MaxIndex = 100_000_000
	// MaxConfig is the largest config.json in bytes that is read.
	MaxConfig = 16 << 20

	lengthSize  = 8 // bytes of N
	metadataKey = "__metadata__"
)

// DType is the type of a tensor's elements, as headers spell it.
type DType string

// The types of the format.
const (
	BOOL       DType = "BOOL"
	F4         DType = "F4"
	F6E2M3     DType = "F6_E2M3"
	F6E3M2     DType = "F6_E3M2"
	U8         DType = "U8"
	I8         DType = "I8"
	F8E5M2     DType = "F8_E5M2"
	F8E4M3     DType = "F8_E4M3"
	F8E8M0     DType = "F8_E8M0"
	F8E4M3FNUZ DType = "F8_E4M3FNUZ"
	F8E5M2FNUZ DType = "F8_E5M2FNUZ"
	I16        DType = "I16"
	U16        DType = "U16"
	F16        DType = "F16"
	BF16       DType = "BF16"
	I32        DType = "I32"
	U32        DType = "U32"
	F32        DType = "F32"
	C64        DType = "C64"
	F64        DType = "F64"
	I64        DType = "I64"
	U64        DType = "U64"
)

var dtypeBits = map[DType]int{
	F4: 4, F6E2M3: 6, F6E3M2: 6,
	BOOL: 8, U8: 8, I8: 8, F8E5M2: 8, F8E4M3: 8, F8E8M0: 8, F8E4M3FNUZ: 8, F8E5M2FNUZ: 8,
	I16: 16, U16: 16, F16: 16, BF16: 16,
	I32: 32, U32: 32, F32: 32,
	C64: 64, F64: 64, I64: 64, U64: 64,
}

// Bits is the size of one element in bits, 0 for a type that the format does not know.
func (d DType) Bits() int { return dtypeBits[d] }

// TensorInfo describes one tensor.
type TensorInfo struct {
	Name  string
	DType DType
	Shape []uint64 // slowest first; none is a scalar
	// Begin and End are the absolute byte range [Begin, End) in the file.
	Begin, End int64
}

// Elements is the number of elements.
func (t TensorInfo) Elements() uint64 {
	n := uint64(1)
	for _, d := range t.Shape {
		n *= d // Open refused a product that overflows
	}
	return n
}

// File is a parsed header. Its fields are not to be changed.
type File struct {
	Size       int64             // bytes of the file
	HeaderSize int64             // bytes before the first tensor: 8 + N
	Metadata   map[string]string // of the key __metadata__, nil without
	Tensors    []TensorInfo      // by offset; tensors without bytes by name among themselves

	r      io.ReaderAt
	byName map[string]int
}

// Tensor finds a tensor by name.
func (f *File) Tensor(name string) (TensorInfo, bool) {
	i, ok := f.byName[name]
	if !ok {
		return TensorInfo{}, false
	}
	return f.Tensors[i], true
}

// Section reads the bytes of a tensor of this file.
func (f *File) Section(t TensorInfo) *io.SectionReader {
	return io.NewSectionReader(f.r, t.Begin, t.End-t.Begin)
}

// FormatError is the refusal of a file that breaks the format.
type FormatError struct {
	Offset int64  // bytes from the start of the file, 0-based
	What   string // which field or tensor
	Got    string
	Want   string
	Next   string // what to do next, may be empty
}

func (e *FormatError) Error() string {
	s := fmt.Sprintf("safetensors: byte %d: %s: got %s, want %s", e.Offset, e.What, e.Got, e.Want)
	if e.Next != "" {
		s += "; " + e.Next
	}
	return s
}
