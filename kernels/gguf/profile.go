package gguf

import (
	"io"
	"slices"
)

// Profile is a reader that people load files with, and what it makes of a file.
type Profile struct {
	Reader  string   `json:"reader"` // "llama.cpp" or "gguf-py"
	Loads   bool     `json:"loads"`
	Reasons []string `json:"reasons"` // why it refuses, empty where it loads
}

// quirk is a point on which readers in use differ, or where both load what is refused here.
type quirk int

const (
	quirkBigEndian quirk = iota
	quirkLongName
	quirkNested
	quirkNoFinalPadding
	quirkZeroDimension
	quirkAlignment
	quirkEmptyKey
	quirkEmptyName
	quirkNUL
	quirkUTF8
	quirkBool
	quirkOffsets
	quirkPadding
	quirkTrailing
)

// quirks tells who refuses what: Open, llama.cpp's model loader on a
// little-endian machine, and GGUFReader of llama.cpp's Python package gguf. Measured on
// both in their source of October 2026; fixtures/hostile/readers.tsv has the runs.
var quirks = map[quirk]struct {
	what                  string
	strict, llama, python bool
}{
	quirkBigEndian:      {"big-endian", false, true, false},
	quirkLongName:       {"a tensor name of 64 bytes or more", false, true, false},
	quirkNested:         {"arrays within arrays", false, true, false},
	quirkNoFinalPadding: {"no padding after the last tensor", false, false, false},
	quirkZeroDimension:  {"a dimension of zero", true, false, false},
	quirkAlignment:      {"an alignment below 8 or above 2^20", true, false, false},
	quirkEmptyKey:       {"an empty key", true, true, false},
	quirkEmptyName:      {"an empty tensor name", true, false, false},
	quirkNUL:            {"a NUL in a name", true, false, false},
	quirkUTF8:           {"a name that is not UTF-8", true, false, true},
	quirkBool:           {"a BOOL that is neither 0 nor 1", true, false, false},
	quirkOffsets:        {"tensors that do not follow each other", true, true, false},
	quirkPadding:        {"padding that is not zero", true, false, false},
	quirkTrailing:       {"bytes after the last tensor", true, false, false},
}

// notes keeps the quirks of one file.
type notes struct {
	lenient bool // go on where a reader in use would
	found   []quirk
}

// note keeps a quirk and returns the refusal where reading stops at it.
func (n *notes) note(q quirk, refusal error) error {
	if !slices.Contains(n.found, q) {
		n.found = append(n.found, q)
	}
	if quirks[q].strict && !n.lenient {
		return refusal
	}
	return nil
}

// profiles judges the quirks by each reader.
func (n *notes) profiles() []Profile {
	llama, python := Profile{"llama.cpp", true, []string{}}, Profile{"gguf-py", true, []string{}}
	for _, q := range n.found {
		if quirks[q].llama {
			llama.Loads, llama.Reasons = false, append(llama.Reasons, quirks[q].what)
		}
		if quirks[q].python {
			python.Loads, python.Reasons = false, append(python.Reasons, quirks[q].what)
		}
	}
	return []Profile{llama, python}
}

// Profiles tells which readers in use would load the container. Whether they
// know its architecture is another question.
func (f *File) Profiles() []Profile { return f.notes.profiles() }

// Refused tells of a file that [Open] refused which readers in use would load
// it all the same. The error says why none is expected to: then the file is
// broken in a way on which they do not differ, or they were not asked.
func Refused(r io.ReaderAt, size int64) ([]Profile, error) {
	f, err := open(Part{R: r, Size: size}, true)
	if err == nil {
		err = f.checkWhole()
	}
	if err != nil {
		return nil, err
	}
	return f.Profiles(), nil
}
