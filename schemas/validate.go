package schemas

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/weighmaster/weighmaster/attest"
)

//go:embed *.v1.json
var files embed.FS

// MaxDocumentBytes bounds a JSON document that is validated, in bytes.
const MaxDocumentBytes = 64 << 20

// InvalidError says where a document breaks its schema.
type InvalidError struct {
	URI     string   // of the schema
	Pointer string   // JSON pointer (RFC 6901) of the place; "/" is the document
	Got     string   // the value there, shortened
	Want    string   // what the schema says of the place
	keys    []string // that may not be there; none for another fault
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("%s: at %s: got %s; %s", strings.TrimPrefix(e.URI, BaseURI), e.Pointer, e.Got, e.Want)
}

// Validate holds a JSON document against the schema with this URI. The JSON is
// read strictly ([attest.CheckJSON]): duplicate keys are errors. Nothing is
// ever loaded from the network. A document that breaks the schema gives *InvalidError.
func Validate(uri string, doc []byte) error {
	s, err := compiled(uri)
	if err != nil {
		return err
	}
	if len(doc) > MaxDocumentBytes {
		return fmt.Errorf("%s: got %d bytes, want at most %d", strings.TrimPrefix(uri, BaseURI), len(doc), MaxDocumentBytes)
	}
	if err := attest.CheckJSON(doc); err != nil {
		return fmt.Errorf("%s: %w", strings.TrimPrefix(uri, BaseURI), err)
	}
	// Plain float64, never json.Number: the validator would turn 1e-400000000 into a rational of as many digits.
	var tree any
	if err := json.Unmarshal(doc, &tree); err != nil {
		return fmt.Errorf("%s: %w", strings.TrimPrefix(uri, BaseURI), err)
	}
	err = s.Validate(tree)
	var invalid *jsonschema.ValidationError
	if errors.As(err, &invalid) {
		return explain(uri, tree, invalid)
	}
	return err
}

// DecodeJSON validates a JSON document and reads it into v, a pointer to the
// document's Go type. A key that the type lacks is an error as well.
func DecodeJSON(uri string, doc []byte, v any) error {
	if err := Validate(uri, doc); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("%s: %w", strings.TrimPrefix(uri, BaseURI), err)
	}
	return nil
}

// explain finds the deepest cause: the outer ones only say that an inner one failed.
func explain(uri string, tree any, e *jsonschema.ValidationError) error {
	for len(e.Causes) > 0 {
		e = deepest(e.Causes)
	}
	at := e.InstanceLocation
	if at == "" {
		at = "/"
	}
	want := e.Message
	unknown := unknownKeys(e)
	if len(unknown) > 0 { // the validator names them in no order
		want = "additionalProperties '" + strings.Join(unknown, "', '") + "' not allowed"
	}
	if means := description(e.AbsoluteKeywordLocation); means != "" {
		want += " (" + means + ")"
	}
	return &InvalidError{URI: uri, Pointer: at, Got: excerpt(lookup(tree, e.InstanceLocation)), Want: want, keys: unknown}
}

// unknownKeys are the keys that the schema does not let in, sorted.
func unknownKeys(e *jsonschema.ValidationError) []string {
	if !strings.HasSuffix(e.KeywordLocation, "/additionalProperties") {
		return nil
	}
	_, rest, _ := strings.Cut(e.Message, "'")
	list, _, _ := strings.Cut(rest, "' not allowed")
	keys := strings.Split(list, "', '")
	slices.Sort(keys)
	return keys
}

// description finds what a schema says about the place whose keyword failed.
func description(keyword string) string {
	uri, pointer, _ := strings.Cut(keyword, "#")
	name, ok := fileName(uri)
	body, err := files.ReadFile(name)
	var tree any
	if !ok || err != nil || json.Unmarshal(body, &tree) != nil {
		return ""
	}
	i := strings.LastIndexByte(pointer, '/')
	if i < 0 {
		return ""
	}
	at, _ := lookup(tree, pointer[:i]).(map[string]any)
	text, _ := at["description"].(string)
	return text
}

// deepest picks the cause that lies deepest in the document; the validator
// gives causes in no order, so that ties are broken by name.
func deepest(causes []*jsonschema.ValidationError) *jsonschema.ValidationError {
	return slices.MinFunc(causes, func(a, b *jsonschema.ValidationError) int {
		return cmp.Or(
			strings.Count(b.InstanceLocation, "/")-strings.Count(a.InstanceLocation, "/"),
			strings.Compare(a.InstanceLocation, b.InstanceLocation),
			strings.Compare(a.KeywordLocation, b.KeywordLocation),
		)
	})
}

func lookup(tree any, pointer string) any {
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for _, part := range strings.Split(pointer, "/")[1:] {
		switch t := tree.(type) {
		case map[string]any:
			tree = t[unescape.Replace(part)]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(t) {
				return nil
			}
			tree = t[i]
		}
	}
	return tree
}

func excerpt(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprintf("%T", v)
	}
	body := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	const most = 100
	if len(body) > most {
		return strings.ToValidUTF8(string(body[:most]), "") + "…"
	}
	return string(body)
}

var cache struct {
	sync.Mutex
	byURI map[string]*jsonschema.Schema
}

// compiled compiles a schema once.
func compiled(uri string) (*jsonschema.Schema, error) {
	cache.Lock()
	defer cache.Unlock()
	if s := cache.byURI[uri]; s != nil {
		return s, nil
	}
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	c.AssertFormat = true
	c.LoadURL = func(url string) (io.ReadCloser, error) {
		name, ok := fileName(url)
		if !ok {
			return nil, fmt.Errorf("no schema has the URI %s", url)
		}
		return files.Open(name)
	}
	s, err := c.Compile(uri)
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", uri, err)
	}
	if cache.byURI == nil {
		cache.byURI = map[string]*jsonschema.Schema{}
	}
	cache.byURI[uri] = s
	return s, nil
}

// fileName maps the URI of a schema to its file: schema/<name>/v1, <name>/v1
// for predicates and stage/<uses>/v1.
func fileName(uri string) (string, bool) {
	name, ok := strings.CutPrefix(uri, BaseURI)
	name, versioned := strings.CutSuffix(name, "/v1")
	if !ok || !versioned {
		return "", false
	}
	if uses, stage := strings.CutPrefix(name, "stage/"); stage {
		name = "stage-" + uses
	} else {
		name = strings.TrimPrefix(name, "schema/")
	}
	return name + ".v1.json", !strings.ContainsAny(name, "/\\")
}
