package schemas_test

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/schemas"
)

// schemaFile reads the schema of a URI from its file.
func schemaFile(t *testing.T, uri string) map[string]any {
	t.Helper()
	name := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(uri, schemas.BaseURI), "schema/"), "/v1") + ".v1.json"
	body, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(body, &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// baseDocument is a valid document as a JSON tree.
func baseDocument(t *testing.T, uri string) map[string]any {
	t.Helper()
	var body []byte
	switch uri {
	case schemas.FixturesURI:
		body = []byte(`{"schema":"` + uri + `","fixtures":[{"id":"a-1","kind":"reading","language":"en","messages":[{"role":"user","content":"x"}],"thinking":false,` +
			`"tools":[{"type":"function"}],"prompt":"p","prompt_ids":[1],"prompt_tokens":1,"max_new_tokens":2,"expect":{"match":"exact","text":"y"},"expect_ids":[2],"min_margin_bf16":0.5}]}`)
	default:
		for _, d := range documents() {
			if d.uri == uri {
				body = marshal(t, d.full)
			}
		}
	}
	var tree map[string]any
	if err := json.Unmarshal(body, &tree); err != nil {
		t.Fatalf("no document of %s: %v", uri, err)
	}
	return tree
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	body, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// set replaces, adds or (with nil) removes what a JSON pointer names.
func set(t *testing.T, tree any, pointer string, value any) {
	t.Helper()
	parts := strings.Split(pointer, "/")[1:]
	for _, p := range parts[:len(parts)-1] {
		switch n := tree.(type) {
		case map[string]any:
			tree = n[p]
		case []any:
			i, err := strconv.Atoi(p)
			if err != nil {
				t.Fatal(err)
			}
			tree = n[i]
		}
	}
	last := parts[len(parts)-1]
	switch n := tree.(type) {
	case map[string]any:
		if value == nil {
			delete(n, last)
		} else {
			n[last] = value
		}
	case []any:
		i, err := strconv.Atoi(last)
		if err != nil {
			t.Fatal(err)
		}
		n[i] = value
	default:
		t.Fatalf("%s is nowhere", pointer)
	}
}
