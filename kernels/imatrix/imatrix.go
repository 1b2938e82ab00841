// Package imatrix reads importance matrices: how much each input column of a
// model's weight matrices was used on a calibration text, as llama.cpp's
// llama-imatrix stores it and llama-quantize takes it.
//
// Two forms exist. The GGUF form holds, for each weight X, the F32 tensors
// X.in_sum2 (sums of squared activations, one per column, [columns, experts])
// and X.counts (activations summed, one per expert), and the keys
// imatrix.datasets, imatrix.chunk_count and imatrix.chunk_size. The old form
// (.dat) is a little-endian sequence: int32 entries; per entry int32 length and
// name, int32 calls, int32 values, the values as float32; then, optionally, int32
// chunks and the int32 length and name of the text. Its values are already
// means, multiplied by the calls.
//
// Reference: tools/imatrix/imatrix.cpp, common/imatrix-loader.cpp and
// tools/quantize/quantize.cpp of https://github.com/ggml-org/llama.cpp.
package imatrix

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
)

// The two forms of a file.
const (
	FormGGUF = "gguf"
	FormDat  = "dat"
)

// Limits of what is read. Counts that were read are compared with what the rest
// of the file can hold as well, before anything is allocated.
const (
	MaxEntries = 1 << 20   // entries
	MaxName    = 1<<16 - 1 // bytes of an entry's or a text's name
	MaxValues  = 1 << 25   // numbers of one entry, which are held at once when they are used
)

// Matrix is an opened importance matrix. Its numbers stay in the file and are
// read when they are asked for, so the file must stay open as long as it is used.
// Its fields are not to be changed.
type Matrix struct {
	Form      string   // FormGGUF or FormDat
	Entries   []Entry  // in file order
	Datasets  []string // calibration texts as they were typed: names, not digests
	Chunks    int64    // chunks of text, 0 where an old file does not say
	ChunkSize int64    // tokens per chunk, 0 in the old form
	Ignored   []string // tensors that are neither sums nor counts; nothing reads them
	Size      int64    // bytes of the file

	r      io.ReaderAt
	order  binary.ByteOrder
	byName map[string]int
}

// Entry is what the matrix holds about one weight.
type Entry struct {
	Name    string // of the weight
	Width   int64  // numbers per expert: columns. In the old form all experts' columns
	Experts int64  // 1 for a plain matrix, and in the old form, which does not say
	// Counts are the activations summed, one per expert; in the old form the number of calls.
	Counts []float32
	// Offset is where the sums stand in the file, Width·Experts float32, in bytes from its start.
	Offset int64
}

// Values is the number of sums: Width·Experts.
func (e Entry) Values() int64 { return e.Width * e.Experts }

// Open reads the structure of an importance matrix of size bytes in either form.
// It checks that every entry is whole, named once and has sums and counts that
// fit each other; [Matrix.Validate] judges the numbers. Errors are
// [*FormatError], those of the GGUF reader, or those of r.
//
// Memory grows with the entries, not with the sums.
func Open(r io.ReaderAt, size int64) (*Matrix, error) {
	if size < 0 {
		return nil, fmt.Errorf("imatrix: got a file of %d bytes, want 0 or more", size)
	}
	m := &Matrix{Size: size, r: r, order: binary.LittleEndian, byName: map[string]int{}}
	head := make([]byte, min(size, 8))
	if _, err := io.ReadFull(io.NewSectionReader(r, 0, size), head); err != nil {
		return nil, fmt.Errorf("imatrix: byte 0: %w", err)
	}
	var err error
	switch {
	case strings.HasPrefix(string(head), "GGUF"):
		m.Form, err = FormGGUF, m.openGGUF()
	case strings.HasPrefix(string(head), "version "):
		err = &FormatError{What: "magic", Got: "a Git LFS pointer", Want: "an importance matrix", Next: "this is a Git LFS pointer, not the file: fetch the file itself"}
	default:
		m.Form, err = FormDat, m.openDat()
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// add takes an entry whose numbers were found.
func (m *Matrix) add(e Entry, at int64) error {
	if _, dup := m.byName[e.Name]; dup {
		return &FormatError{Offset: at, What: fmt.Sprintf("entry %d", len(m.Entries)+1), Got: fmt.Sprintf("%q a second time", e.Name),
			Want: "each name once", Next: "readers disagree about which numbers count"}
	}
	m.byName[e.Name] = len(m.Entries)
	m.Entries = append(m.Entries, e)
	return nil
}

// Entry finds the entry of a weight.
func (m *Matrix) Entry(name string) (Entry, bool) {
	i, ok := m.byName[name]
	if !ok {
		return Entry{}, false
	}
	return m.Entries[i], true
}

// Tokens is the number of activations of the plain matrices, which every token of
// the text passes: the tokens that were processed. 0 where there is no plain matrix, and in the old form.
func (m *Matrix) Tokens() int64 {
	most := float32(0)
	for _, e := range m.Entries {
		if m.Form == FormGGUF && !e.routed() {
			most = max(most, e.Counts[0])
		}
	}
	return int64(min(float64(most), 1<<53))
}

// Weights gives the importance of a weight's columns as llama-quantize uses it,
// Width·Experts numbers, expert after expert: sum / count in float32, 1
// throughout an expert without a count; in the old form sum / calls, or the sum
// where there were no calls. It is false where the matrix has no such entry.
// The numbers are not judged.
func (m *Matrix) Weights(name string) ([]float32, bool, error) {
	e, ok := m.Entry(name)
	if !ok {
		return nil, false, nil
	}
	weights := make([]float32, 0, min(e.Values(), chunk))
	err := m.sums(e, func(expert int64, sums []float32) error {
		count, zero, err := e.divisor(m.Form, expert)
		if err != nil {
			return err
		}
		for _, s := range sums {
			switch {
			case zero && m.Form == FormGGUF:
				weights = append(weights, 1)
			case zero:
				weights = append(weights, s)
			default:
				weights = append(weights, s/count)
			}
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	return weights, true, nil
}

// divisor is the count of an expert as the C code has it: rounded to a whole number.
func (e Entry) divisor(form string, expert int64) (count float32, zero bool, err error) {
	c := float64(e.Counts[expert])
	if math.IsNaN(c) || math.Abs(c) >= math.MaxInt64 {
		return 0, false, fmt.Errorf("imatrix: %s: count of expert %d: got %v, want a number of activations; make the matrix again", e.Name, expert, c)
	}
	count = float32(math.Round(c)) // halves away from zero, as lround
	return count, count <= 0, nil
}

// chunk is how many numbers are read at once.
const chunk = 64 << 10

// sums reads the sums of an entry expert by expert, in runs that end with their expert.
func (m *Matrix) sums(e Entry, use func(expert int64, sums []float32) error) error {
	raw := make([]byte, 4*min(e.Width, chunk))
	run := make([]float32, len(raw)/4)
	for expert := range e.Experts {
		for done := int64(0); done < e.Width; {
			n := min(e.Width-done, int64(len(run)))
			at := e.Offset + 4*(expert*e.Width+done)
			if _, err := io.ReadFull(io.NewSectionReader(m.r, at, 4*n), raw[:4*n]); err != nil {
				return fmt.Errorf("imatrix: %s: byte %d: %w", e.Name, at, err)
			}
			m.floats(run[:n], raw)
			if err := use(expert, run[:n]); err != nil {
				return err
			}
			done += n
		}
	}
	return nil
}

func (m *Matrix) floats(dst []float32, raw []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(m.order.Uint32(raw[4*i:]))
	}
}
