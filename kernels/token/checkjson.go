package token

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// checkJSON refuses what encoding/json would pass over in silence: two fields
// of one name (RFC 8259, section 4), bytes that are not UTF-8, half of a
// surrogate pair, text after the value; and nesting and sizes beyond any
// tokenizer's, before they are held in memory.
func checkJSON(body []byte) error {
	if !utf8.Valid(body) {
		return errors.New("tokenizer.json: got bytes that are not UTF-8, want JSON in UTF-8")
	}
	if at := loneSurrogate(body); at >= 0 {
		return fmt.Errorf("tokenizer.json: byte %d: got half of a surrogate pair, want a whole character", at)
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if err := checkValue(dec, "$", 0); err != nil {
		return fmt.Errorf("tokenizer.json: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("tokenizer.json: byte %d: got text after the value, want the end", dec.InputOffset())
	}
	return nil
}

func checkValue(dec *json.Decoder, path string, depth int) error {
	t, err := dec.Token()
	if err != nil {
		return fmt.Errorf("byte %d: %w", dec.InputOffset(), err)
	}
	open, ok := t.(json.Delim)
	if !ok {
		return nil
	}
	if depth >= maxDepth {
		return fmt.Errorf("%s: got values nested deeper than %d, want at most that", path, maxDepth)
	}
	limit, seen := maxMerges, map[string]bool(nil)
	if open == '{' {
		limit, seen = maxTokens, map[string]bool{}
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
		if err := checkValue(dec, at, depth+1); err != nil {
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

// escape reads \uXXXX at the start of b.
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
