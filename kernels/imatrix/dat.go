package imatrix

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

// datCursor walks through a file of the old form.
type datCursor struct {
	r         io.ReaderAt
	off, size int64
}

func (c *datCursor) remaining() int64 { return c.size - c.off }

func (c *datCursor) bytes(n int64, what string) ([]byte, error) {
	if n > c.remaining() {
		return nil, &FormatError{Offset: c.off, What: what, Got: fmt.Sprintf("%d bytes to the end of the file", c.remaining()),
			Want: fmt.Sprintf("%d bytes", n), Next: "the file is truncated, or no importance matrix"}
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(io.NewSectionReader(c.r, c.off, n), b); err != nil {
		return nil, fmt.Errorf("imatrix: byte %d: %s: %w", c.off, what, err)
	}
	c.off += n
	return b, nil
}

// int reads an int32 between least and most. want says what most is.
func (c *datCursor) int(what string, least, most int64, want string) (int64, error) {
	at := c.off
	b, err := c.bytes(4, what)
	if err != nil {
		return 0, err
	}
	n := int64(int32(binary.LittleEndian.Uint32(b)))
	if n < least || n > most {
		return 0, &FormatError{Offset: at, What: what, Got: fmt.Sprint(n), Want: fmt.Sprintf("%d to %d, %s", least, most, want), Next: "this is no importance matrix, or a damaged one"}
	}
	return n, nil
}

func (c *datCursor) string(what string, least int64) (string, error) {
	n, err := c.int(what+": length", least, min(MaxName, max(0, c.remaining()-4)), "the bytes that a name may have and the file can hold")
	if err != nil {
		return "", err
	}
	at := c.off
	b, err := c.bytes(n, what)
	if err != nil {
		return "", err
	}
	s := string(b)
	if strings.ContainsRune(s, 0) || !utf8.ValidString(s) {
		return "", &FormatError{Offset: at, What: what, Got: fmt.Sprintf("%q", s[:min(len(s), 64)]), Want: "UTF-8 without NUL bytes"}
	}
	return s, nil
}

// An entry takes at least: length 4, one byte of name, calls 4, values 4, one value 4.
const leastEntry = 17

func (m *Matrix) openDat() error {
	c := &datCursor{r: m.r, size: m.Size}
	n, err := c.int("number of entries", 1, max(1, min(MaxEntries, (m.Size-4)/leastEntry)), "the entries that the file can hold")
	if err != nil {
		return err
	}
	for i := range n {
		if err := m.datEntry(c, i+1, n); err != nil {
			return err
		}
	}
	if c.remaining() == 0 {
		return nil // the oldest files end here
	}
	if m.Chunks, err = c.int("number of chunks", 0, math.MaxInt32, "the chunks of text"); err != nil {
		return err
	}
	if c.remaining() == 0 {
		return nil
	}
	name, err := c.string("name of the text", 0)
	if err != nil {
		return err
	}
	if name != "" {
		m.Datasets = []string{name}
	}
	if c.remaining() != 0 {
		return &FormatError{Offset: c.off, What: "end", Got: fmt.Sprintf("%d bytes more", c.remaining()), Want: "the end of the file after the name of the text", Next: "no reader looks at them"}
	}
	return nil
}

func (m *Matrix) datEntry(c *datCursor, i, of int64) error {
	at := c.off
	what := fmt.Sprintf("entry %d of %d", i, of)
	name, err := c.string(what+": name", 1)
	if err != nil {
		return err
	}
	what += fmt.Sprintf(" (%.64q)", name)
	calls, err := c.int(what+": calls", 0, math.MaxInt32, "a number of calls")
	if err != nil {
		return err
	}
	values, err := c.int(what+": values", 1, min(MaxValues, max(1, (c.remaining()-4)/4)), "the numbers that the file can hold")
	if err != nil {
		return err
	}
	e := Entry{Name: name, Width: values, Experts: 1, Counts: []float32{float32(calls)}, Offset: c.off}
	if c.remaining() < 4*values {
		return &FormatError{Offset: c.off, What: what + ": numbers", Got: fmt.Sprintf("%d bytes to the end of the file", c.remaining()), Want: fmt.Sprintf("%d bytes", 4*values), Next: "the file is truncated"}
	}
	c.off += 4 * values
	return m.add(e, at)
}
