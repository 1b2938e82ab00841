package convert

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// vocabularyCase is a tokenizer.json with what the converter takes from it from
// one id on, see fixtures/tokenizers/README.md.
type vocabularyCase struct {
	Kind   string                     `json:"kind"`
	Size   int64                      `json:"size"`
	Files  map[string]json.RawMessage `json:"files"`
	First  int                        `json:"first"`
	Tokens []string                   `json:"tokens"`
	Kinds  []int64                    `json:"kinds"`
	Merges []string                   `json:"merges"`
}

func vocabularyCases(t testing.TB) []vocabularyCase {
	t.Helper()
	body, err := os.ReadFile("../../fixtures/tokenizers/vocabularies.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []vocabularyCase
	if err := json.Unmarshal(body, &cases); err != nil || len(cases) < 60 {
		t.Fatalf("got %d cases and %v, want 60 and more", len(cases), err)
	}
	return cases
}

func (c vocabularyCase) kvs() ([]gguf.KV, error) {
	fsys := fstest.MapFS{}
	for name, body := range c.Files {
		fsys[name] = &fstest.MapFile{Data: body}
	}
	config := Config{Architectures: []string{"LlamaForCausalLM"}, VocabSize: c.Size}
	return config.tokenizerKVs(fsys, "llama-bpe")
}

func TestVocabulariesAsTheConverterTakesThem(t *testing.T) {
	kinds := map[string]int{}
	for i, c := range vocabularyCases(t) {
		kvs, err := c.kvs()
		if err != nil {
			t.Errorf("case %d: %v", i, err)
			continue
		}
		get := func(key string) gguf.Value {
			i := slices.IndexFunc(kvs, func(kv gguf.KV) bool { return kv.Key == key })
			if i < 0 {
				return gguf.Value{}
			}
			return kvs[i].Value
		}
		if got := get(keyTokens).Strings(); len(got) < c.First || !slices.Equal(got[c.First:], c.Tokens) {
			t.Errorf("case %d (%s): tokens: got %q, want %q; %s", i, c.Kind, got[min(len(got), c.First):], c.Tokens, c.Files[settingsFile])
		}
		if got := get(keyTypes).Ints(); len(got) < c.First || !slices.Equal(got[c.First:], c.Kinds) {
			t.Errorf("case %d (%s): types: got %v, want %v for %q; %s", i, c.Kind, got[min(len(got), c.First):], c.Kinds, c.Tokens, c.Files[settingsFile])
		}
		if c.Kind == "byte-level" && !slices.Equal(get(keyMerges).Strings(), c.Merges) {
			t.Errorf("case %d: merges: got %q, want %q", i, get(keyMerges).Strings(), c.Merges)
		}
		for _, kind := range c.Kinds {
			kinds[fmt.Sprint(c.Kind, kind)]++
		}
	}
	if len(kinds) < 8 {
		t.Errorf("got the types %v, want every type of both kinds", kinds)
	}
}
