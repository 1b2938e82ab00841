package gguf

import (
	"fmt"
	"strings"
)

// FormatError is the refusal of a file that breaks the format.
type FormatError struct {
	Offset int64  // bytes from the start of the file, 0-based
	What   string // which field, key or tensor
	Got    string
	Want   string
	Next   string // what to do next, may be empty
}

func (e *FormatError) Error() string {
	s := fmt.Sprintf("gguf: byte %d: %s: got %s, want %s", e.Offset, e.What, e.Got, e.Want)
	if e.Next != "" {
		s += "; " + e.Next
	}
	return s
}

// TruncatedError is the refusal of a file whose header is whole and whose
// tensor data is not: an interrupted download or quantization.
type TruncatedError struct {
	Size    int64    // bytes that the file has
	Want    int64    // bytes up to the end of the last tensor
	Total   int      // tensors that the header lists
	Missing []string // tensors that are not there, or not whole, in file order
}

// maxNamed bounds the names that an error message lists.
const maxNamed = 16

func (e *TruncatedError) Error() string {
	names := e.Missing[:min(len(e.Missing), maxNamed)]
	s := fmt.Sprintf("gguf: truncated: got %d bytes, want %d; %d of %d tensors are missing or cut: %s",
		e.Size, e.Want, len(e.Missing), e.Total, strings.Join(names, ", "))
	if more := len(e.Missing) - len(names); more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s + "; fetch or make the file again"
}
