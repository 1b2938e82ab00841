package schemas

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/weighmaster/weighmaster/attest"
)

// MaxYAMLBytes bounds a YAML document, in bytes.
const MaxYAMLBytes = 256 << 10

// DecodeYAML reads one YAML document that is nothing but JSON in another
// spelling: no anchors, aliases, merge keys, tags, second documents or
// duplicate keys, and only strings as keys. It is then validated against the
// schema with this URI and read into v. name is the document's name in errors,
// which give the line.
func DecodeYAML(name string, doc []byte, uri string, v any) error {
	body, lines, err := yamlToJSON(doc)
	if err != nil {
		return fmt.Errorf("%s%w", name, err)
	}
	err = DecodeJSON(uri, body, v)
	var invalid *InvalidError
	if errors.As(err, &invalid) {
		pointer := strings.TrimSuffix(invalid.Pointer, "/")
		if len(invalid.keys) > 0 {
			pointer += "/" + escapePointer(invalid.keys[0])
		}
		return fmt.Errorf("%s:%d: %w", name, lines.of(pointer), err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// lineError is a fault at one line, from 1.
type lineError struct {
	line int
	text string
}

func (e *lineError) Error() string { return fmt.Sprintf(":%d: %s", e.line, e.text) }

// yamlLines maps JSON pointers to lines.
type yamlLines map[string]int

// of gives the line of a pointer, or of the nearest thing around it.
func (l yamlLines) of(pointer string) int {
	for {
		if line, ok := l[pointer]; ok {
			return line
		}
		i := strings.LastIndexByte(pointer, '/')
		if i < 0 {
			return 1
		}
		pointer = pointer[:i]
	}
}

func yamlToJSON(doc []byte) (body []byte, lines yamlLines, err error) {
	if len(doc) > MaxYAMLBytes {
		return nil, nil, fmt.Errorf(": got %d bytes, want at most %d", len(doc), MaxYAMLBytes)
	}
	if !utf8.Valid(doc) {
		return nil, nil, errors.New(": got invalid UTF-8")
	}
	if err := shallow(doc); err != nil {
		return nil, nil, err
	}
	file, err := parse(doc)
	if err != nil {
		return nil, nil, err
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return nil, nil, fmt.Errorf(": got %d YAML documents, want exactly one that is not empty", len(file.Docs))
	}
	c := yamlConverter{lines: yamlLines{}}
	tree, err := c.value(file.Docs[0].Body, "", 0)
	if err != nil {
		return nil, nil, err
	}
	body, err = json.Marshal(tree)
	return body, c.lines, err
}

// parse calls the parser, which is recursive and not ours: a fault in it is an error here.
func parse(doc []byte) (file *ast.File, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf(": this YAML cannot be read (%v)", fault)
		}
	}()
	file, err = parser.ParseBytes(doc, 0)
	var placed interface {
		GetMessage() string
		GetToken() *token.Token
	}
	if errors.As(err, &placed) && placed.GetToken() != nil {
		return nil, &lineError{placed.GetToken().Position.Line, placed.GetMessage()}
	}
	if err != nil {
		return nil, fmt.Errorf(": %w", err)
	}
	return file, nil
}

// shallow refuses nesting that would exhaust a recursive parser's stack, before
// it runs: open brackets, and indicators in one line.
func shallow(doc []byte) error {
	const deep = 4 * attest.MaxDepth
	open, run, line := 0, 0, 1
	for _, b := range doc {
		switch b {
		case '[', '{':
			open++
		case ']', '}':
			open = max(0, open-1)
		case '-', '?', ':', '!', '&', '*':
			run++
		case '\n':
			run = 0
			line++
		}
		if open > deep {
			return &lineError{line, fmt.Sprintf("got more than %d open brackets", deep)}
		}
		if run > 2*deep {
			return &lineError{line, fmt.Sprintf("got more than %d YAML indicators in one line", 2*deep)}
		}
	}
	return nil
}

type yamlConverter struct{ lines yamlLines }

func lineOf(n ast.Node) int {
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		return tk.Position.Line
	}
	return 1
}

func (c yamlConverter) value(n ast.Node, at string, depth int) (any, error) {
	if n == nil {
		return nil, &lineError{c.lines.of(at), "got nothing, want a value"}
	}
	if depth > attest.MaxDepth {
		return nil, &lineError{lineOf(n), fmt.Sprintf("got more than %d levels", attest.MaxDepth)}
	}
	c.lines[at] = lineOf(n)
	switch t := n.(type) {
	case *ast.MappingNode:
		return c.mapping(t.Values, at, depth)
	case *ast.MappingValueNode:
		return c.mapping([]*ast.MappingValueNode{t}, at, depth)
	case *ast.SequenceNode:
		list := make([]any, len(t.Values))
		for i, v := range t.Values {
			var err error
			if list[i], err = c.value(v, at+"/"+strconv.Itoa(i), depth+1); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return scalar(n)
}

func (c yamlConverter) mapping(values []*ast.MappingValueNode, at string, depth int) (any, error) {
	object := make(map[string]any, len(values))
	for _, kv := range values {
		key, ok := kv.Key.(*ast.StringNode)
		if !ok {
			return nil, &lineError{lineOf(kv), fmt.Sprintf("got the key %.60s, which is %s, want a string; quote it", kv.Key.String(), yamlKind(kv.Key))}
		}
		if _, ok := object[key.Value]; ok {
			return nil, &lineError{lineOf(kv.Key), fmt.Sprintf("got the key %q twice, want it once", key.Value)}
		}
		place := at + "/" + escapePointer(key.Value)
		v, err := c.value(kv.Value, place, depth+1)
		if err != nil {
			return nil, err
		}
		object[key.Value] = v
		c.lines[place] = lineOf(kv.Key)
	}
	return object, nil
}

// escapePointer writes a key as a part of a JSON pointer (RFC 6901 section 3).
func escapePointer(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }

func scalar(n ast.Node) (any, error) {
	switch t := n.(type) {
	case *ast.StringNode:
		return t.Value, nil
	case *ast.LiteralNode:
		return t.Value.Value, nil
	case *ast.BoolNode:
		return t.Value, nil
	case *ast.NullNode:
		return nil, nil
	case *ast.IntegerNode:
		return t.Value, nil
	case *ast.FloatNode:
		if !math.IsInf(t.Value, 0) && !math.IsNaN(t.Value) {
			return t.Value, nil
		}
	}
	return nil, &lineError{lineOf(n), fmt.Sprintf("got %s, want plain values only", yamlKind(n))}
}

func yamlKind(n ast.Node) string {
	switch n.(type) {
	case *ast.AnchorNode:
		return "an anchor"
	case *ast.AliasNode:
		return "an alias"
	case *ast.MergeKeyNode:
		return "a merge key"
	case *ast.TagNode:
		return "a tag"
	case *ast.MappingKeyNode:
		return "a complex key"
	case *ast.InfinityNode, *ast.NanNode:
		return "a number that is not finite"
	}
	return "a YAML " + strings.ToLower(n.Type().String())
}

// LineOf tells the line, from 1, of what a JSON pointer names in a YAML document
// that [DecodeYAML] can read, or of the nearest thing around it.
func LineOf(doc []byte, pointer string) int {
	_, lines, err := yamlToJSON(doc)
	if err != nil {
		return 1
	}
	return lines.of(pointer)
}
