package token

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
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
