package token

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

// node is one value of tokenizer.json with the path that leads to it. A node
// of a missing field has no bytes.
type node struct {
	raw  json.RawMessage
	path string
}

func (n node) errorf(format string, args ...any) error {
	return fmt.Errorf("tokenizer.json: %s: %s", n.path, fmt.Sprintf(format, args...))
}

func (n node) absent() bool { return len(n.raw) == 0 || string(n.raw) == "null" }

// object reads the fields of an object and refuses those that are not known.
func (n node) object(known ...string) (map[string]node, error) {
	fields, err := n.fields()
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fields[name].errorf("got a field that is not known here, want one of %s; a tokenizer that needs it cannot be read", strings.Join(known, ", "))
		}
	}
	for _, name := range known {
		if _, ok := fields[name]; !ok {
			fields[name] = node{path: n.path + "." + name}
		}
	}
	return fields, nil
}

func (n node) fields() (map[string]node, error) {
	if len(n.raw) == 0 || n.raw[0] != '{' {
		return nil, n.errorf("got %s, want an object", n.shown())
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(n.raw, &raw); err != nil {
		return nil, n.errorf("%v", err)
	}
	fields := make(map[string]node, len(raw))
	for name, value := range raw {
		fields[name] = node{raw: value, path: n.path + "." + name}
	}
	return fields, nil
}

// kind reads the "type" of an object.
func (n node) kind() (string, error) {
	fields, err := n.fields()
	if err != nil {
		return "", err
	}
	kind := fields["type"]
	kind.path = n.path + ".type"
	return scalar[string](kind)
}

func (n node) array(limit int) ([]node, error) {
	if len(n.raw) == 0 || n.raw[0] != '[' {
		return nil, n.errorf("got %s, want an array", n.shown())
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(n.raw, &raw); err != nil {
		return nil, n.errorf("%v", err)
	}
	if len(raw) > limit {
		return nil, n.errorf("got %d elements, want at most %d", len(raw), limit)
	}
	nodes := make([]node, len(raw))
	for i, value := range raw {
		nodes[i] = node{raw: value, path: fmt.Sprintf("%s[%d]", n.path, i)}
	}
	return nodes, nil
}

// scalar reads a value of exactly the type T; null and a missing field are errors.
func scalar[T string | bool | uint32](n node) (T, error) {
	var v T
	if n.absent() {
		return v, n.errorf("got %s, want a %T", n.shown(), v)
	}
	if err := json.Unmarshal(n.raw, &v); err != nil {
		return v, n.errorf("got %s, want a %T", n.shown(), v)
	}
	return v, nil
}

// short reads a string of at most limit bytes.
func short(n node, limit int) (string, error) {
	s, err := scalar[string](n)
	if err == nil && len(s) > limit {
		return "", n.errorf("got %d bytes, want at most %d", len(s), limit)
	}
	return s, err
}

func (n node) shown() string {
	switch {
	case len(n.raw) == 0:
		return "nothing"
	case len(n.raw) > 40:
		return strings.ToValidUTF8(string(n.raw[:40]), "") + "…"
	}
	return string(n.raw)
}

// checkJSON refuses what encoding/json would pass over in silence: two fields
// of one name (RFC 8259, section 4), bytes that are not UTF-8, half of a
// surrogate pair, text after the value; and nesting beyond maxDepth.
func checkJSON(body []byte) error {
	if !utf8.Valid(body) {
		return errors.New("tokenizer.json: got bytes that are not UTF-8, want JSON in UTF-8")
	}
	if at := loneSurrogate(body); at >= 0 {
		return fmt.Errorf("tokenizer.json: byte %d: got half of a surrogate pair, want a whole character", at)
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if err := checkValue(dec, "", 0); err != nil {
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
	seen := map[string]bool{}
	for dec.More() {
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
