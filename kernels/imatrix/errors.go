package imatrix

import "fmt"

// FormatError is the refusal of a file that is no importance matrix of either form.
type FormatError struct {
	Offset int64  // bytes from the start of the file, 0-based
	What   string // which field or entry
	Got    string
	Want   string
	Next   string // what to do next, may be empty
}

func (e *FormatError) Error() string {
	s := fmt.Sprintf("imatrix: byte %d: %s: got %s, want %s", e.Offset, e.What, e.Got, e.Want)
	if e.Next != "" {
		s += "; " + e.Next
	}
	return s
}
