package safetensors

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// scanner reads the JSON (RFC 8259) of headers and indexes front to back, a
// window at a time: objects with each key once, strings, arrays of whole
// numbers. Decoding into a map would keep the last of two equal keys and say
// nothing; reading token by token with encoding/json is ten times slower.
type scanner struct {
	r    io.Reader
	buf  [32 << 10]byte
	pos  int   // next byte in buf
	n    int   // bytes in buf
	base int64 // where buf[0] stands in the file
	err  error // of r, io.EOF at the end
	text []byte
	list []uint64
}

func newScanner(r io.Reader, base int64) *scanner { return &scanner{r: r, base: base} }

func (s *scanner) offset() int64 { return s.base + int64(s.pos) }

func (s *scanner) fail(what, got, want string) error {
	return &FormatError{Offset: s.offset(), What: what, Got: got, Want: want}
}

// peek gives the next byte, ok = false at the end of the text or of its reader.
func (s *scanner) peek() (b byte, ok bool) {
	for s.pos == s.n {
		if s.err != nil {
			return 0, false
		}
		s.base += int64(s.n)
		s.pos, s.n = 0, 0
		s.n, s.err = s.r.Read(s.buf[:])
	}
	return s.buf[s.pos], true
}

// ended says why there is no next byte.
func (s *scanner) ended(what string) error {
	if s.err != io.EOF {
		return s.err
	}
	return s.fail(what, "the end of the JSON text", "a complete object")
}

// next skips white space and gives the byte after it.
func (s *scanner) next(what string) (byte, error) {
	for {
		b, ok := s.peek()
		switch {
		case !ok:
			return 0, s.ended(what)
		case b != ' ' && b != '\n' && b != '\t' && b != '\r':
			return b, nil
		}
		s.pos++
	}
}

// take skips white space and takes one byte, which has to be b.
func (s *scanner) take(what string, b byte, want string) error {
	got, err := s.next(what)
	if err != nil {
		return err
	}
	if got != b {
		return s.unexpected(what, want)
	}
	s.pos++
	return nil
}

// unexpected is the refusal of what stands here.
func (s *scanner) unexpected(what, want string) error {
	at := s.offset()
	got := "the end of the JSON text"
	switch b, ok := s.peek(); {
	case !ok && s.err != io.EOF:
		return s.err
	case !ok:
	case b == '"':
		text, err := s.string(what)
		if err != nil {
			return err
		}
		got = fmt.Sprintf("the string %.80q", text)
	case b == '-' || isDigit(b):
		got = "the number " + s.word()
	case b >= 'a' && b <= 'z':
		got = s.word()
	default:
		got = fmt.Sprintf("%q", b)
	}
	return &FormatError{Offset: at, What: what, Got: got, Want: want}
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// word takes a number or a literal, as much of it as a message shows.
func (s *scanner) word() string {
	var word []byte
	for len(word) < 80 {
		b, ok := s.peek()
		if !ok || !isDigit(b) && b != '-' && b != '+' && b != '.' && (b|0x20 < 'a' || b|0x20 > 'z') {
			break
		}
		word = append(word, b)
		s.pos++
	}
	return string(word)
}

// object reads an object and calls each with every key, once; each takes the value.
func (s *scanner) object(what string, each func(key string) error) error {
	if err := s.take(what, '{', "an object"); err != nil {
		return err
	}
	var seen keys
	for first := true; ; first = false {
		b, err := s.next(what)
		if err != nil {
			return err
		}
		switch {
		case b == '}':
			s.pos++
			return nil
		case !first:
			if err := s.take(what, ',', "a comma or the end of the object"); err != nil {
				return err
			}
			if b, err = s.next(what); err != nil {
				return err
			}
		}
		if b != '"' {
			return s.unexpected(what, "a key")
		}
		key, err := s.string(what)
		if err != nil {
			return err
		}
		if !seen.add(key) {
			return s.fail(what, fmt.Sprintf("duplicate key %.200q", key), "each key once")
		}
		if strings.ContainsRune(key, utf8.RuneError) {
			return s.fail(what, fmt.Sprintf("key %.200q", key), "Unicode text (half a surrogate pair, or the replacement character, stands for anything)")
		}
		if err := s.take(what, ':', "a colon after the key"); err != nil {
			return err
		}
		if err := each(key); err != nil {
			return err
		}
	}
}

// keys remembers the keys of one object; most have three.
type keys struct {
	few  [8]string
	n    int
	many map[string]struct{}
}

// add tells whether the key is new.
func (k *keys) add(key string) bool {
	if k.n < len(k.few) {
		if slices.Contains(k.few[:k.n], key) {
			return false
		}
		k.few[k.n] = key
		k.n++
		return true
	}
	if k.many == nil {
		k.many = map[string]struct{}{}
		for _, old := range k.few {
			k.many[old] = struct{}{}
		}
	}
	before := len(k.many)
	k.many[key] = struct{}{}
	return len(k.many) > before
}

// numbers reads an array of whole numbers from 0 to 2^64-1. The slice is good until the next call.
func (s *scanner) numbers(what string) ([]uint64, error) {
	if err := s.take(what, '[', "an array of whole numbers"); err != nil {
		return nil, err
	}
	list := s.list[:0]
	for {
		b, err := s.next(what)
		if err != nil {
			return nil, err
		}
		if b == ']' && len(list) == 0 {
			break
		}
		n, err := s.number(what)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
		if b, err = s.next(what); err != nil {
			return nil, err
		}
		if b == ']' {
			break
		}
		if err := s.take(what, ',', "a comma or the end of the array"); err != nil {
			return nil, err
		}
		if _, err := s.next(what); err != nil {
			return nil, err
		}
	}
	s.pos++
	s.list = list
	return list, nil
}

// number reads digits without a leading zero, sign, fraction or exponent.
func (s *scanner) number(what string) (uint64, error) {
	at, n, digits := s.offset(), uint64(0), 0
	refuse := func(start string) error {
		word := start + s.word()
		if word == "" {
			return s.unexpected(what, "a whole number from 0 to 2^64-1")
		}
		return &FormatError{Offset: at, What: what, Got: "the number " + word, Want: "a whole number from 0 to 2^64-1"}
	}
	for ; ; digits++ {
		b, ok := s.peek()
		if !ok || !isDigit(b) {
			break
		}
		d := uint64(b - '0')
		if digits > 0 && n == 0 || n > (1<<64-1-d)/10 {
			return 0, refuse(fmt.Sprint(n))
		}
		n = n*10 + d
		s.pos++
	}
	switch b, ok := s.peek(); {
	case !ok:
		return 0, s.ended(what)
	case digits == 0:
		return 0, refuse("")
	case b == '.' || b|0x20 == 'e':
		return 0, refuse(fmt.Sprint(n))
	}
	return n, nil
}

// end checks that only white space follows.
func (s *scanner) end(what string) error {
	if _, err := s.next(what); err == nil {
		return s.unexpected(what+": after the object", "white space only")
	} else if s.err != io.EOF {
		return err
	}
	return nil
}

// raw takes any one value as it stands, with valid JSON inside.
func (s *scanner) raw(what string) (json.RawMessage, error) {
	var value []byte
	depth, quoted := 0, false
	for at := s.offset(); ; s.pos++ {
		b, ok := s.peek()
		done := !quoted && depth == 0 && (b == ',' || b == '}' || b == ']')
		if !ok || done {
			if !ok && s.err != io.EOF {
				return nil, s.err
			}
			if !json.Valid(value) {
				return nil, &FormatError{Offset: at, What: what, Got: fmt.Sprintf("%.80q", value), Want: "JSON"}
			}
			return value, nil
		}
		switch {
		case quoted && b == '\\':
			value = append(value, b)
			s.pos++
			if b, ok = s.peek(); !ok {
				return nil, s.ended(what)
			}
		case b == '"':
			quoted = !quoted
		case !quoted && (b == '{' || b == '['):
			depth++
		case !quoted && (b == '}' || b == ']'):
			depth--
		}
		value = append(value, b)
	}
}
