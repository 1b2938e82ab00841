package convert

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// goodVocabulary is a tokenizer.json and tokenizer_config.json that are taken;
// the tests change one thing.
func goodVocabulary(t testing.TB) (tokenizer, settings string) {
	t.Helper()
	for _, c := range vocabularyCases(t) {
		if c.Kind == "byte-level" && c.Merges != nil {
			return string(c.Files[tokenizerFile]), `{"tokenizer_class":"PreTrainedTokenizerFast","chat_template":"{{ messages }}"}`
		}
	}
	t.Fatal("no byte-level case")
	return "", ""
}

func vocabularyOf(tokenizer, settings string, size int64) ([]gguf.KV, error) {
	fsys := fstest.MapFS{}
	for name, body := range map[string]string{tokenizerFile: tokenizer, settingsFile: settings} {
		if body != "" {
			fsys[name] = &fstest.MapFile{Data: []byte(body)}
		}
	}
	config := Config{Architectures: []string{"Qwen3ForCausalLM"}, VocabSize: size}
	return config.tokenizerKVs(fsys, "qwen2")
}

func TestHostileVocabularies(t *testing.T) {
	tokenizer, settings := goodVocabulary(t)
	if kvs, err := vocabularyOf(tokenizer, settings, 300); err != nil || len(kvs) < 6 {
		t.Fatalf("got %d keys and %v", len(kvs), err)
	}
	edit := func(change func(whole map[string]any)) string {
		var whole map[string]any
		if err := json.Unmarshal([]byte(tokenizer), &whole); err != nil {
			t.Fatal(err)
		}
		change(whole)
		body, err := json.Marshal(whole)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	model := func(whole map[string]any) map[string]any { return whole["model"].(map[string]any) }
	vocab := func(whole map[string]any) map[string]any { return model(whole)["vocab"].(map[string]any) }
	add := func(id int, text string) string {
		return edit(func(w map[string]any) {
			w["added_tokens"] = append(w["added_tokens"].([]any), map[string]any{"id": id, "content": text, "special": true})
		})
	}
	for _, x := range []struct {
		name, tokenizer, settings string
		size                      int64
		want                      string
	}{
		{"no file", "", settings, 300, "tokenizer.json: got none"},
		{"a name twice", strings.Replace(tokenizer, `"model":{`, `"model":{"type":"BPE",`, 1), settings, 300, `$.model: got the field "type" twice`},
		{"a token twice", strings.Replace(tokenizer, `"vocab":{`, `"vocab":{"!":0,`, 1), settings, 300, `got the field "!" twice`},
		{"bytes that are not UTF-8", strings.Replace(tokenizer, `"vocab":{`, "\"vocab\":{\"\xff\":0,", 1), settings, 300, "not UTF-8"},
		{"deep nesting", strings.Replace(tokenizer, `"vocab":{`, `"vocab":{"x":`+strings.Repeat("[", 40)+strings.Repeat("]", 40)+",", 1), settings, 300, "nested deeper than 32"},
		{"an id twice", edit(func(w map[string]any) { vocab(w)["!"] = vocab(w)["a"] }), settings, 300, "want one text an id"},
		{"an id below zero", edit(func(w map[string]any) { vocab(w)["!"] = -1 }), settings, 300, `got the id -1 for "!"`},
		{"an id beyond", edit(func(w map[string]any) { vocab(w)["!"] = 300 }), settings, 300, `got the id 300 for "!", want one below vocab_size 300`},
		{"an id of another kind", edit(func(w map[string]any) { vocab(w)["!"] = "0" }), settings, 300, "tokenizer.json: vocab"},
		{"a huge vocab_size", tokenizer, settings, 1 << 40, "vocab_size: got 1099511627776"},
		{"an added token beyond", add(900, "<zz>"), settings, 300, `got the id 900 for "<zz>"`},
		{"another model", edit(func(w map[string]any) { model(w)["type"] = "Unigram" }), settings, 300, `got "Unigram", want BPE`},
		{"merges of three", edit(func(w map[string]any) { model(w)["merges"] = [][]string{{"a", "b", "c"}} }), settings, 300, "entry 0: got 3 tokens, want 2"},
		{"merges of another kind", edit(func(w map[string]any) { model(w)["merges"] = 7 }), settings, 300, "neither texts nor pairs"},
		{"another token at an id", tokenizer, `{"added_tokens_decoder":{"3":{"content":"<zz>"}}}`, 300, `got "<zz>" as id 3, want the text that tokenizer.json has there`},
		{"an id that is none", tokenizer, `{"added_tokens_decoder":{"x":{"content":"a"}}}`, 300, `got "x", want a token id`},
		{"a special token that is none", tokenizer, `{"bos_token":"<zz>"}`, 300, `got the special token "<zz>", which tokenizer.json does not have`},
		{"templates of no form", tokenizer, `{"chat_template":7}`, 300, "neither a text nor a list of named templates"},
		{"a template without a name", tokenizer, `{"chat_template":[{"template":"x"}]}`, 300, "entry 0: got no name or no template"},
		{"settings with a name twice", tokenizer, `{"bos_token":"a","bos_token":"b"}`, 300, "tokenizer_config.json"},
	} {
		kvs, err := vocabularyOf(x.tokenizer, x.settings, x.size)
		if err == nil || !strings.Contains(err.Error(), x.want) || kvs != nil {
			t.Errorf("%s: got %d keys and %v, want none and %q", x.name, len(kvs), err, x.want)
		}
	}
}

// TestUnreadPreTokenizerStopsNothingElse: all other keys are there beside the error.
func TestUnreadPreTokenizerStopsNothingElse(t *testing.T) {
	tokenizer, settings := goodVocabulary(t)
	changed := strings.Replace(tokenizer, `"pre_tokenizer":{"type":"ByteLevel"`, `"pre_tokenizer":{"type":"UnheardOf"`, 1)
	fsys := fstest.MapFS{tokenizerFile: {Data: []byte(changed)}, settingsFile: {Data: []byte(settings)}}
	config := Config{Architectures: []string{"Qwen3ForCausalLM"}, VocabSize: 300}
	kvs, err := config.tokenizerKVs(fsys, "")
	if err == nil || !strings.Contains(err.Error(), `got the pre-tokenizer "UnheardOf"`) {
		t.Errorf("got %v, want the pre-tokenizer named", err)
	}
	want, _ := vocabularyOf(tokenizer, settings, 300)
	want = slices.DeleteFunc(want, func(kv gguf.KV) bool { return kv.Key == keyPre })
	if len(kvs) != len(want) || len(kvs) < 5 {
		t.Errorf("got %d keys, want %d", len(kvs), len(want))
	}
}

// FuzzVocabulary: whatever is taken has one type for each id, and ids within it.
func FuzzVocabulary(f *testing.F) {
	for i, c := range vocabularyCases(f) {
		if i%6 == 0 {
			f.Add([]byte(c.Files[tokenizerFile]), []byte(c.Files[settingsFile]), uint16(c.Size))
		}
	}
	f.Add([]byte(`{"model":{"type":"BPE","vocab":{"a":0,"b":65535},"merges":["a b"]}}`), []byte(`{"bos_token":"a"}`), uint16(9))
	f.Add([]byte(`{"model":{"type":"BPE","vocab":{"a":-1}},"added_tokens":[{"id":-5,"content":"x"}]}`), []byte(`{"chat_template":[{"name":"a"}]}`), uint16(2))
	f.Fuzz(func(t *testing.T, tokenizer, settings []byte, size uint16) {
		fsys := fstest.MapFS{tokenizerFile: {Data: tokenizer}, settingsFile: {Data: settings}}
		for _, name := range []string{"LlamaForCausalLM", "Qwen3ForCausalLM", "Gemma3ForCausalLM", "Phi3ForCausalLM"} {
			config := Config{Architectures: []string{name}, VocabSize: int64(size)}
			kvs, _ := config.tokenizerKVs(fsys, "")
			tokens, types := -1, -1
			for _, kv := range kvs {
				switch kv.Key {
				case keyTokens:
					tokens = kv.Value.Len
				case keyTypes:
					types = kv.Value.Len
				}
			}
			if tokens != types {
				t.Fatalf("%s: got %d tokens and %d types", name, tokens, types)
			}
		}
	})
}
