package gguf

import (
	"slices"
	"testing"
)

func TestTokenizerDigest(t *testing.T) {
	base := []KV{
		{"general.architecture", String("llama")},
		{"general.name", String("model")},
		{"llama.block_count", Uint32(4)},
		{"tokenizer.ggml.tokens", Strings([]string{"a", "b"})},
		{"tokenizer.ggml.scores", Float32s([]float32{0, -1})},
		{"tokenizer.ggml.bos_token_id", Uint32(1)},
	}
	want, err := TokenizerDigest(base)
	if err != nil {
		t.Fatal(err)
	}
	with := func(key string, v Value) []KV {
		kvs := slices.DeleteFunc(slices.Clone(base), func(kv KV) bool { return kv.Key == key })
		return append(kvs, KV{key, v})
	}
	for name, kvs := range map[string][]KV{
		"another order":       {base[5], base[4], base[3], base[2], base[1], base[0]},
		"another name":        with("general.name", String("other")),
		"a key of the model":  with("llama.block_count", Uint32(5)),
		"a key of the file":   with("general.file_type", Uint32(7)),
		"a key more in front": append([]KV{{"a", Uint32(1)}}, base...),
	} {
		if got, err := TokenizerDigest(kvs); err != nil || got != want {
			t.Errorf("%s: got %s (%v), want the same %s", name, got, err, want)
		}
	}
	seen := map[string]string{want.String(): "base"}
	for name, kvs := range map[string][]KV{
		"one score":              with("tokenizer.ggml.scores", Float32s([]float32{0, -2})),
		"one token":              with("tokenizer.ggml.tokens", Strings([]string{"a", "c"})),
		"tokens cut otherwise":   with("tokenizer.ggml.tokens", Strings([]string{"ab", ""})),
		"another type of number": with("tokenizer.ggml.bos_token_id", Int32(1)),
		"a template":             with("tokenizer.chat_template", String("x")),
		"another architecture":   with("general.architecture", String("phi3")),
		"a name with meaning":    with("general.name", String("My-Phi-3-mini")),
		"a key less":             base[:5],
	} {
		got, err := TokenizerDigest(kvs)
		if other, twice := seen[got.String()]; err != nil || twice {
			t.Errorf("%s: got %s (%v), which is that of %s", name, got, err, other)
		}
		seen[got.String()] = name
	}
	if got, err := TokenizerDigest(base[:3]); err == nil || got != "" {
		t.Errorf("without a vocabulary: got %s (%v), want an error", got, err)
	}
}
