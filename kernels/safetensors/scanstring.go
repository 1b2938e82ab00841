package safetensors

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// string reads a string and decodes it; an escaped half of a surrogate pair
// becomes the replacement character.
func (s *scanner) string(what string) (string, error) {
	if err := s.take(what, '"', "a string"); err != nil {
		return "", err
	}
	at := s.offset()
	s.text = s.text[:0]
	ascii := true
	for {
		if _, ok := s.peek(); !ok {
			if err := s.utf8(at); err != nil && s.err == io.EOF {
				return "", err
			}
			return "", s.ended(what)
		}
		run := s.buf[s.pos:s.n]
		i := 0
		for i < len(run) && run[i] != '"' && run[i] != '\\' && run[i] >= 0x20 {
			ascii = ascii && run[i] < utf8.RuneSelf
			i++
		}
		s.text = append(s.text, run[:i]...)
		if s.pos += i; i == len(run) {
			continue
		}
		s.pos++
		switch run[i] {
		case '"':
			if !ascii {
				if err := s.utf8(at); err != nil {
					return "", err
				}
			}
			return intern(s.text), nil
		case '\\':
			if err := s.escape(what); err != nil {
				return "", err
			}
		default:
			s.pos--
			return "", s.fail(what, fmt.Sprintf("byte 0x%02x in a string", run[i]), "control characters escaped")
		}
	}
}

// utf8 refuses a string that is not UTF-8: replacing bytes would make two names one.
func (s *scanner) utf8(at int64) error {
	for i, r := range string(s.text) {
		if r != utf8.RuneError {
			continue
		}
		if _, size := utf8.DecodeRune(s.text[i:]); size == 1 {
			return &FormatError{Offset: at, What: "JSON text", Got: fmt.Sprintf("byte 0x%02x", s.text[i]), Want: "UTF-8"}
		}
	}
	return nil
}

// intern spares a copy of the strings that come with every tensor.
func intern(b []byte) string {
	switch string(b) {
	case "dtype":
		return "dtype"
	case "shape":
		return "shape"
	case "data_offsets":
		return "data_offsets"
	case "BF16":
		return "BF16"
	case "F16":
		return "F16"
	case "F32":
		return "F32"
	case "U32":
		return "U32"
	}
	return string(b)
}

// escape reads what follows a backslash.
func (s *scanner) escape(what string) error {
	b, ok := s.peek()
	if !ok {
		return s.ended(what)
	}
	s.pos++
	if i := strings.IndexByte(`"\/bfnrt`, b); i >= 0 {
		s.text = append(s.text, "\"\\/\b\f\n\r\t"[i])
		return nil
	}
	if b != 'u' {
		return s.fail(what, fmt.Sprintf("the escape \\%c", b), `one of \" \\ \/ \b \f \n \r \t \u`)
	}
	r, err := s.hex(what)
	if err != nil {
		return err
	}
	for utf16.IsSurrogate(r) {
		if b, ok = s.peek(); !ok || b != '\\' {
			break
		}
		s.pos++
		if b, ok = s.peek(); !ok || b != 'u' {
			s.text = utf8.AppendRune(s.text, unicode.ReplacementChar)
			return s.escape(what)
		}
		s.pos++
		low, err := s.hex(what)
		if err != nil {
			return err
		}
		if both := utf16.DecodeRune(r, low); both != unicode.ReplacementChar {
			r = both
			break
		}
		s.text = utf8.AppendRune(s.text, unicode.ReplacementChar)
		r = low
	}
	s.text = utf8.AppendRune(s.text, r) // a surrogate becomes the replacement character
	return nil
}

// hex reads four hexadecimal digits.
func (s *scanner) hex(what string) (rune, error) {
	n := rune(0)
	for range 4 {
		b, ok := s.peek()
		switch lower := b | 0x20; {
		case !ok:
			return 0, s.ended(what)
		case isDigit(b):
			n = n<<4 | rune(b-'0')
		case lower >= 'a' && lower <= 'f':
			n = n<<4 | rune(lower-'a'+10)
		default:
			return 0, s.fail(what, fmt.Sprintf("%q in a \\u escape", b), "4 hexadecimal digits")
		}
		s.pos++
	}
	return n, nil
}
