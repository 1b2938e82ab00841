package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// tokens reads JSON token by token: decoding into a map would keep the last of
// two equal keys and say nothing.
type tokens struct {
	d    *json.Decoder
	base int64 // where the JSON starts in the file, bytes
}

func newTokens(r io.Reader, base int64) *tokens {
	d := json.NewDecoder(&utf8Reader{r: r, off: base})
	d.UseNumber()
	return &tokens{d: d, base: base}
}

func (t *tokens) offset() int64 { return t.base + t.d.InputOffset() }

func (t *tokens) fail(what, got, want string) error {
	return &FormatError{Offset: t.offset(), What: what, Got: got, Want: want}
}

// next gives one token and turns syntax errors into refusals.
func (t *tokens) next(what string) (json.Token, error) {
	tok, err := t.d.Token()
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, t.fail(what, "the end of the JSON text", "a complete object")
	case errors.As(err, &syntax):
		return nil, t.fail(what, syntax.Error(), "JSON")
	}
	return tok, err
}

// show names a token in an error.
func show(tok json.Token) string {
	switch v := tok.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("the string %.80q", v)
	case json.Number:
		return fmt.Sprintf("the number %.80s", v)
	}
	return fmt.Sprintf("%v", tok)
}

// open takes one delimiter.
func (t *tokens) open(what string, delim json.Delim, want string) error {
	tok, err := t.next(what)
	if err != nil {
		return err
	}
	if tok != delim {
		return t.fail(what, show(tok), want)
	}
	return nil
}

// object reads an object and calls each with every key, once.
func (t *tokens) object(what string, each func(key string) error) error {
	if err := t.open(what, '{', "an object"); err != nil {
		return err
	}
	seen := map[string]bool{}
	for t.d.More() {
		tok, err := t.next(what)
		if err != nil {
			return err
		}
		key, ok := tok.(string)
		if !ok {
			return t.fail(what, show(tok), "a key")
		}
		if seen[key] {
			return t.fail(what, fmt.Sprintf("duplicate key %.200q", key), "each key once")
		}
		seen[key] = true
		if strings.ContainsRune(key, utf8.RuneError) {
			return t.fail(what, fmt.Sprintf("key %.200q", key), "Unicode text (half a surrogate pair, or the replacement character, stands for anything)")
		}
		if err := each(key); err != nil {
			return err
		}
	}
	return t.open(what, '}', "the end of the object")
}

func (t *tokens) string(what string) (string, error) {
	tok, err := t.next(what)
	if err != nil {
		return "", err
	}
	s, ok := tok.(string)
	if !ok {
		return "", t.fail(what, show(tok), "a string")
	}
	return s, nil
}

// numbers reads an array of whole numbers from 0 to 2^64-1.
func (t *tokens) numbers(what string) ([]uint64, error) {
	if err := t.open(what, '[', "an array of whole numbers"); err != nil {
		return nil, err
	}
	list := []uint64{}
	for t.d.More() {
		tok, err := t.next(what)
		if err != nil {
			return nil, err
		}
		number, _ := tok.(json.Number)
		n, err := strconv.ParseUint(string(number), 10, 64)
		if err != nil {
			return nil, t.fail(what, show(tok), "a whole number from 0 to 2^64-1")
		}
		list = append(list, n)
	}
	return list, t.open(what, ']', "the end of the array")
}

// end checks that only white space follows.
func (t *tokens) end(what string) error {
	tok, err := t.d.Token()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		return t.fail(what, show(tok)+" after the object", "white space only")
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return t.fail(what, syntax.Error()+" after the object", "white space only")
	}
	return err
}

// utf8Reader refuses bytes that are not UTF-8: the decoder would replace them.
type utf8Reader struct {
	r    io.Reader
	off  int64             // of the first byte in tail
	tail [utf8.UTFMax]byte // an incomplete rune at the end of the last read
	n    int
}

func (u *utf8Reader) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	if u.n == 0 && utf8.Valid(p[:n]) {
		u.off += int64(n)
		return n, err
	}
	b := append(u.tail[:u.n:u.n], p[:n]...)
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 {
			if !utf8.FullRune(b) && err == nil {
				break
			}
			return 0, &FormatError{Offset: u.off, What: "JSON text", Got: fmt.Sprintf("byte 0x%02x", b[0]), Want: "UTF-8"}
		}
		b = b[size:]
		u.off += int64(size)
	}
	u.n = copy(u.tail[:], b)
	return n, err
}
