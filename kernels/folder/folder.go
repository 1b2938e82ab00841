// Package folder reads the small files of model folders within bounds, compares
// them as JSON, and lays faults over folders without writing to them.
package folder

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"slices"

	"github.com/weighmaster/weighmaster/kernels/strictjson"
)

// MaxFile is the largest configuration or tokenizer file in bytes that is read.
const MaxFile = 64 << 20

// limits bound the shape of a file: vocabularies have hundreds of thousands of members.
var limits = strictjson.Limits{Depth: 64, Members: 2 << 20, Elements: 4 << 20}

// Read reads one file of a folder, at most [MaxFile] bytes.
func Read(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("folder: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("folder: read %s: %w", name, err)
	}
	if len(data) > MaxFile {
		return nil, &JSONError{name, fmt.Sprintf("more than %d bytes", MaxFile)}
	}
	return data, nil
}

// JSONError is the refusal of a file's content.
type JSONError struct{ Name, Got string }

func (e *JSONError) Error() string {
	return fmt.Sprintf("folder: %s: got %s, want one JSON object", e.Name, e.Got)
}

// ReadObject reads a file that is one JSON object, each key once. Numbers keep
// their text as json.Number. Errors are [*JSONError] or those of fsys.
func ReadObject(fsys fs.FS, name string) (map[string]any, error) {
	data, err := Read(fsys, name)
	if err != nil {
		return nil, err
	}
	if err := strictjson.Check(data, limits); err != nil {
		return nil, &JSONError{name, err.Error()}
	}
	var object map[string]any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&object); err != nil {
		return nil, &JSONError{name, err.Error()}
	}
	if object == nil {
		return nil, &JSONError{name, "null"}
	}
	return object, nil
}

// Same compares JSON values. Numbers are compared by value, as 1e-5 and 1e-05
// are one; absent and null are the same.
func Same(a, b any) bool {
	x, ok := a.(json.Number)
	y, also := b.(json.Number)
	if ok && also {
		f, err := x.Float64()
		g, other := y.Float64()
		return x == y || err == nil && other == nil && f == g
	}
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			w, ok := b[k]
			if !ok || !Same(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, Same)
	}
	return reflect.DeepEqual(a, b)
}

// Show gives a member of an object as short JSON.
func Show(o map[string]any, key string) string {
	v, ok := o[key]
	if !ok {
		return "no such key"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%.120v", v)
	}
	return fmt.Sprintf("%.120s", text)
}
