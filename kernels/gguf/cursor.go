package gguf

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

const (
	chunk  = 1 << 20  // bytes, the most that is allocated ahead of those that were read
	window = 64 << 10 // bytes that are read at once
)

// cursor reads a header front to back and knows where it is.
type cursor struct {
	r     *bufio.Reader
	order binary.ByteOrder
	off   int64 // bytes read so far
	size  int64 // bytes of the file, at most MaxHeader of them are read here
	word  [8]byte
	notes *notes
}

func newCursor(r io.ReaderAt, size int64, n *notes) *cursor {
	limit := min(size, MaxHeader)
	return &cursor{r: bufio.NewReaderSize(io.NewSectionReader(r, 0, limit), window), order: binary.LittleEndian, size: limit, notes: n}
}

func (c *cursor) remaining() uint64 { return uint64(c.size - c.off) }

func (c *cursor) fail(what, got, want string) error {
	return &FormatError{Offset: c.off, What: what, Got: got, Want: want}
}

// full fills p or fails with the name of the field.
func (c *cursor) full(p []byte, what string) error {
	if uint64(len(p)) > c.remaining() {
		return &FormatError{Offset: c.off, What: what, Got: fmt.Sprintf("%d bytes to the end of the header", c.remaining()),
			Want: fmt.Sprintf("%d bytes", len(p)), Next: "the file is truncated"}
	}
	n, err := io.ReadFull(c.r, p)
	c.off += int64(n)
	if err != nil {
		return fmt.Errorf("gguf: byte %d: %s: %w", c.off, what, err)
	}
	return nil
}

func (c *cursor) uint32(what string) (uint32, error) {
	err := c.full(c.word[:4], what)
	return c.order.Uint32(c.word[:4]), err
}

func (c *cursor) uint64(what string) (uint64, error) {
	err := c.full(c.word[:8], what)
	return c.order.Uint64(c.word[:8]), err
}

// count reads a number of things that take at least each bytes, and refuses
// more than limit of them or more than the rest of the file could hold.
func (c *cursor) count(what string, each, limit uint64) (int, error) {
	at := c.off
	n, err := c.uint64(what)
	if err != nil {
		return 0, err
	}
	want := ""
	switch {
	case n > limit:
		want = fmt.Sprintf("at most %d", limit)
	case n > c.remaining()/each:
		want = fmt.Sprintf("at most %d, which is what the remaining %d bytes can hold", c.remaining()/each, c.remaining())
	default:
		return int(n), nil
	}
	return 0, &FormatError{Offset: at, What: what, Got: fmt.Sprintf("a count of %d", n), Want: want}
}

// bytes reads n bytes; n was compared with what remains, and memory still grows by chunks only.
func (c *cursor) bytes(n int, what string) ([]byte, error) {
	p := make([]byte, 0, min(n, chunk))
	for len(p) < n {
		from := len(p)
		p = append(p, make([]byte, min(n-from, chunk))...)
		if err := c.full(p[from:], what); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (c *cursor) string(what string, limit uint64) (string, error) {
	n, err := c.count(what, 1, limit)
	if err != nil {
		return "", err
	}
	if n > window {
		b, err := c.bytes(n, what)
		return string(b), err
	}
	b, err := c.r.Peek(n) // one copy for each of 100,000 tokens, not two
	if err != nil {
		return "", fmt.Errorf("gguf: byte %d: %s: %w", c.off+int64(len(b)), what, err)
	}
	s := string(b)
	c.off += int64(n)
	_, err = c.r.Discard(n)
	return s, err
}
