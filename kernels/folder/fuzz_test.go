package folder

import (
	"bytes"
	"encoding/json"
	"testing"
	"testing/fstest"
)

// FuzzReadObject: what is read as an object is written again as the same one, each key once, and nothing else is read.
func FuzzReadObject(f *testing.F) {
	for _, text := range []string{
		`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{}{}`, `[]`, `null`, ``, `{"a":`, `{"a":[1e999,-0,1E-5,{"b":null}],"\ud800":"\ufffd"}`,
		`{"quantization":{"bits":4,"group_size":64,"mode":"affine"},"chat_template":[{"name":"default","template":"{{ x }}"}]}`,
	} {
		f.Add([]byte(text))
	}
	f.Add(bytes.Repeat([]byte(`{"a":`), 100))
	f.Fuzz(func(t *testing.T, text []byte) {
		object, err := ReadObject(fstest.MapFS{"x": {Data: text}}, "x")
		if (object == nil) != (err != nil) {
			t.Fatalf("got %v and %v, want one of them", object, err)
		}
		if err != nil {
			return
		}
		if !json.Valid(text) {
			t.Fatalf("%q was read and is not JSON", text)
		}
		again, err := ReadObject(fstest.MapFS{"x": {Data: JSON(object)}}, "x")
		if err != nil || !Same(object, again) {
			t.Fatalf("written again: got %v, %v, want %v", again, err, object)
		}
		for key := range object {
			_ = Show(object, key)
		}
	})
}
