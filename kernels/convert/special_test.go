package convert

import (
	"encoding/json"
	"os"
	"testing"
	"testing/fstest"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// specialCase is a snapshot's tokenizer files with what gguf-py reads from them,
// see fixtures/tokenizers/README.md.
type specialCase struct {
	Files map[string]json.RawMessage `json:"files"`
	N     int64                      `json:"n"` // ids, -1: not bounded
	Extra bool                       `json:"extra"`
	KVs   [][2]any                   `json:"kvs"`
}

// TestSpecialTokensAsTheConverterFindsThem: ids, switches, chat templates and
// normalizer flags, in order.
func TestSpecialTokensAsTheConverterFindsThem(t *testing.T) {
	body, err := os.ReadFile("../../fixtures/tokenizers/special.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []specialCase
	if err := json.Unmarshal(body, &cases); err != nil || len(cases) < 400 {
		t.Fatalf("got %d cases and %v, want 400 and more", len(cases), err)
	}
	kinds := map[string]int{}
	for i, c := range cases {
		fsys := fstest.MapFS{}
		for name, body := range c.Files {
			var text string
			if json.Unmarshal(body, &text) == nil {
				body = []byte(text)
			}
			fsys[name] = &fstest.MapFile{Data: body}
		}
		got, err := specialKVsOf(fsys, c)
		if err != nil {
			t.Errorf("case %d: %v", i, err)
			continue
		}
		var want []gguf.KV
		for _, kv := range c.KVs {
			key := kv[0].(string)
			kinds[key]++
			want = append(want, gguf.KV{Key: key, Value: asValue(kv[1])})
		}
		if t.Failed() && i > 20 {
			t.FailNow()
		}
		checkKeys(t, string(c.Files["tokenizer_config.json"])+string(c.Files["tokenizer.json"]), got, want)
	}
	if len(kinds) < 17 {
		t.Errorf("got the keys %v, want every key that the converter knows", kinds)
	}
}

func specialKVsOf(fsys fstest.MapFS, c specialCase) ([]gguf.KV, error) {
	files, err := readTokenizerFiles(fsys)
	if err != nil {
		return nil, err
	}
	var config Config
	if _, err := readJSON(fsys, "config.json", &config.specialTokens); err != nil {
		return nil, err
	}
	s := vocabularySource{tokenizerFiles: files, config: &config}
	if c.Extra {
		return s.extraSpecials(map[string]int64{"eot": 107})
	}
	return s.specialKVs(c.N)
}

func asValue(v any) gguf.Value {
	switch v := v.(type) {
	case bool:
		return gguf.Bool(v)
	case float64:
		return gguf.Uint32(uint32(v))
	case []any:
		var texts []string
		for _, x := range v {
			texts = append(texts, x.(string))
		}
		return gguf.Strings(texts)
	}
	return gguf.String(v.(string))
}
