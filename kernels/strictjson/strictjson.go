// Package strictjson refuses JSON that two readers could take differently, and
// JSON that is out of all proportion, before anything of it is decoded.
//
// The grammar is RFC 8259. Beyond it, [Check] refuses what the RFC leaves to
// the reader (sections 4, 8.1 and 8.2): two members of one name, bytes that are
// not UTF-8, half of a surrogate pair. encoding/json passes over all three. It
// also refuses a number beyond the range of a float64 (section 6), which is an
// error to one reader and infinity to another.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Limits bound the shape of a text, so that its size in memory is a small
// multiple of its bytes.
type Limits struct {
	Depth    int // nesting of objects and arrays
	Members  int // of one object
	Elements int // of one array
}

// Check reads the whole text once. An error names the byte (0-based) or the
// path of what is wrong, "$" being the outermost value.
func Check(body []byte, l Limits) error {
	if !utf8.Valid(body) {
		return errors.New("got bytes that are not UTF-8, want JSON in UTF-8")
	}
	if at := loneSurrogate(body); at >= 0 {
		return fmt.Errorf("byte %d: got half of a surrogate pair, want a whole character", at)
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if err := l.value(dec, "$", 0); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("byte %d: got text after the value, want the end", dec.InputOffset())
	}
	return nil
}

func (l Limits) value(dec *json.Decoder, path string, depth int) error {
	t, err := dec.Token()
	if err != nil {
		return fmt.Errorf("byte %d: %w", dec.InputOffset(), err)
	}
	if number, ok := t.(json.Number); ok {
		if _, err := number.Float64(); err != nil {
			return fmt.Errorf("%s: got the number %s, want one within the range of a float64", path, number)
		}
	}
	open, ok := t.(json.Delim)
	if !ok {
		return nil
	}
	if depth >= l.Depth {
		return fmt.Errorf("%s: got values nested deeper than %d, want at most that", path, l.Depth)
	}
	limit, seen := l.Elements, map[string]bool(nil)
	if open == '{' {
		limit, seen = l.Members, map[string]bool{}
	}
	for n := 0; dec.More(); n++ {
		if n >= limit {
			return fmt.Errorf("%s: got more than %d members, want at most that", path, limit)
		}
		at := path
		if open == '{' {
			key, err := dec.Token()
			if err != nil {
				return fmt.Errorf("byte %d: %w", dec.InputOffset(), err)
			}
			name, _ := key.(string)
			if seen[name] {
				return fmt.Errorf("%s: got the field %q twice, want it once", path, name)
			}
			seen[name] = true
			at += "." + name
		}
		if err := l.value(dec, at, depth+1); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("byte %d: %w", dec.InputOffset(), err)
	}
	return nil
}

// loneSurrogate finds an escape \uD800 to \uDFFF that is not half of a pair,
// -1 if there is none. Escapes that are no JSON at all are left to the parser.
func loneSurrogate(body []byte) int {
	for i := 0; i+1 < len(body); i++ {
		if body[i] != '\\' {
			continue
		}
		r, ok := escape(body[i:])
		switch {
		case !ok || r < 0xD800 || r > 0xDFFF:
			i++ // past the escaped byte, which may itself be a backslash
		case r >= 0xDC00:
			return i
		default:
			if low, ok := escape(body[i+6:]); !ok || low < 0xDC00 || low > 0xDFFF {
				return i
			}
			i += 11
		}
	}
	return -1
}

// escape reads a \u escape with its four hex digits at the start of b.
func escape(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range b[2:6] {
		d := strings.IndexByte("0123456789abcdef", c|0x20)
		if d < 0 {
			return 0, false
		}
		r = r<<4 | rune(d)
	}
	return r, true
}
