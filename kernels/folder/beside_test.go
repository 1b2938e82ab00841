package folder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

func files(list ...string) fstest.MapFS {
	out := fstest.MapFS{}
	for i := 0; i < len(list); i += 2 {
		out[list[i]] = &fstest.MapFile{Data: []byte(list[i+1])}
	}
	return out
}

// TestFilesBesideTheWeights: what differs is named, what only looks different is not.
func TestFilesBesideTheWeights(t *testing.T) {
	base := []string{"config.json", `{"a": 1, "b": [1e-5]}`, "tokenizer.model", "abc", "README.md", "x", "model.safetensors", "w", "model.safetensors.index.json", "{}"}
	for name, c := range map[string]struct {
		target []string
		want   string // empty: nothing differs
	}{
		"the same":              {base, ""},
		"spelled otherwise":     {[]string{"config.json", ` {"b":[0.00001],"a":1.0}`, "tokenizer.model", "abc"}, ""},
		"prose and weights":     {[]string{"config.json", base[1], "tokenizer.model", "abc", "README.md", "y", "LICENSE", "z", "model.safetensors", "v", ".gitattributes", "q"}, ""},
		"a key":                 {[]string{"config.json", `{"a": 2, "b": [1e-5]}`, "tokenizer.model", "abc"}, "config.json: a: got 2, want 1"},
		"a key more":            {[]string{"config.json", `{"a": 1, "b": [1e-5], "auto_map": {}}`, "tokenizer.model", "abc"}, "config.json: auto_map: got {}, want no such key"},
		"bytes":                 {[]string{"config.json", base[1], "tokenizer.model", "abd"}, "tokenizer.model: byte 2: got other bytes"},
		"a longer file":         {[]string{"config.json", base[1], "tokenizer.model", "abcd"}, "tokenizer.model: byte 3"},
		"a file more":           {[]string{"config.json", base[1], "tokenizer.model", "abc", "pytorch_model.bin", "p"}, "pytorch_model.bin: got in the target only"},
		"a file less":           {[]string{"config.json", base[1]}, "tokenizer.model: got no such file"},
		"JSON that is none":     {[]string{"config.json", `{"a": 1,`, "tokenizer.model", "abc"}, "config.json: byte 8: got other bytes"},
		"a key that is skipped": {[]string{"config.json", `{"a": 1, "b": [1e-5], "skipped": 1}`, "tokenizer.model", "abc"}, ""},
	} {
		found, err := CompareBeside(context.Background(), files(base...), files(c.target...), func(_, key string) bool { return key == "skipped" })
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case c.want == "" && len(found) > 0, c.want != "" && (len(found) != 1 || !strings.Contains(found[0].String(), c.want)):
			t.Errorf("%s: got %v, want %q", name, found, c.want)
		}
	}
}

// TestManyKeysAreCutShort, so that a hostile file does not fill the report.
func TestManyKeysAreCutShort(t *testing.T) {
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, `"k%d": 1,`, i)
	}
	found, err := CompareBeside(context.Background(), files("config.json", "{}"), files("config.json", "{"+many.String()+`"z":1}`), nil)
	if err != nil || len(found) != mostKeys+1 {
		t.Errorf("got %d findings, %v, want %d", len(found), err, mostKeys+1)
	}
}

// TestAnEndedComparisonSaysSo.
func TestAnEndedComparisonSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := CompareBeside(ctx, files("a", "b"), files("a", "b"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want canceled", err)
	}
	if _, err := CompareBeside(context.Background(), files("a", "b"), fstest.MapFS{"a": {Mode: fs.ModeDir}}, nil); err != nil {
		t.Errorf("got %v, want a folder passed over", err)
	}
}
