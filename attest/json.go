package attest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CheckJSON accepts exactly one JSON value that every reader reads alike
// (I-JSON, RFC 7493): valid UTF-8, no two keys of one object that are equal or
// differ only in case, no lone surrogates, no integer beyond ±(2^53-1), at most
// [MaxDepth] deep, nothing behind it. encoding/json alone would keep the last
// of two equal keys and match keys whatever their case, without a word.
// Errors name the place as a JSON pointer (RFC 6901).
func CheckJSON(doc []byte) error {
	if !utf8.Valid(doc) {
		return errors.New("JSON: got invalid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	w := jsonWalk{dec: dec, doc: doc}
	if err := w.value(0); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("JSON: got data after the value at byte %d, want the end", dec.InputOffset())
	}
	return nil
}

type jsonWalk struct {
	dec  *json.Decoder
	doc  []byte
	path []string
}

func (w *jsonWalk) fail(format string, args ...any) error {
	return fmt.Errorf("JSON at %s: %s", pointer(w.path), fmt.Sprintf(format, args...))
}

func (w *jsonWalk) token() (json.Token, error) {
	from := w.dec.InputOffset()
	tok, err := w.dec.Token()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, w.fail("byte %d: %v", w.dec.InputOffset(), err)
	}
	if _, ok := tok.(string); ok && loneSurrogate(w.doc[from:w.dec.InputOffset()]) {
		return nil, w.fail("got a string with half of a surrogate pair, want Unicode")
	}
	return tok, nil
}

func (w *jsonWalk) value(depth int) error {
	tok, err := w.token()
	if err != nil {
		return err
	}
	switch t := tok.(type) {
	case json.Number:
		return w.number(t)
	case json.Delim:
		if depth >= MaxDepth {
			return w.fail("got more than %d levels", MaxDepth)
		}
		if t == '{' {
			return w.object(depth)
		}
		return w.array(depth)
	}
	return nil
}

func (w *jsonWalk) object(depth int) error {
	seen := map[string]string{}
	for w.dec.More() {
		tok, err := w.token()
		if err != nil {
			return err
		}
		key := tok.(string) // the decoder lets nothing else stand before a colon
		folded := fold(key)
		if earlier, ok := seen[folded]; ok {
			if earlier == key {
				return w.fail("got the key %q twice, want it once", key)
			}
			return w.fail("got the keys %q and %q, want keys that differ in more than case", earlier, key)
		}
		seen[folded] = key
		w.path = append(w.path, key)
		if err := w.value(depth + 1); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
	}
	_, err := w.token()
	return err
}

// fold gives one spelling to all keys that encoding/json would take for each
// other: simple case folding, by which "s" is also the long s, and "k" Kelvin's.
func fold(key string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			least = min(least, other)
		}
		return least
	}, key)
}

func (w *jsonWalk) array(depth int) error {
	for i := 0; w.dec.More(); i++ {
		w.path = append(w.path, strconv.Itoa(i))
		if err := w.value(depth + 1); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
	}
	_, err := w.token()
	return err
}

func (w *jsonWalk) number(n json.Number) error {
	f, err := n.Float64()
	if err != nil || math.IsInf(f, 0) {
		return w.fail("got the number %.40s, want one that a double holds", n)
	}
	const safe = 1<<53 - 1
	if !strings.ContainsAny(n.String(), ".eE") && math.Abs(f) > safe {
		return w.fail("got the integer %.40s, want one within ±%d, which every reader holds exactly", n, safe)
	}
	return nil
}

// loneSurrogate tells whether raw JSON text with one string literal escapes
// half of a UTF-16 surrogate pair, which Go would silently replace.
func loneSurrogate(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		if i >= len(raw) || raw[i] != 'u' {
			continue
		}
		unit := hexUnit(raw, i+1)
		i += 4
		switch {
		case unit >= 0xDC00 && unit < 0xE000:
			return true
		case unit >= 0xD800 && unit < 0xDC00:
			if i+2 >= len(raw) || raw[i+1] != '\\' || raw[i+2] != 'u' {
				return true
			}
			if low := hexUnit(raw, i+3); low < 0xDC00 || low >= 0xE000 {
				return true
			}
			i += 6
		}
	}
	return false
}

func hexUnit(raw []byte, at int) uint64 {
	if at+4 > len(raw) {
		return 0
	}
	unit, err := strconv.ParseUint(string(raw[at:at+4]), 16, 16)
	if err != nil {
		return 0
	}
	return unit
}

// pointer spells a path as a JSON pointer (RFC 6901); the document itself is "/".
func pointer(path []string) string {
	if len(path) == 0 {
		return "/"
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var b strings.Builder
	for _, p := range path {
		b.WriteByte('/')
		b.WriteString(escape.Replace(p))
	}
	return b.String()
}
