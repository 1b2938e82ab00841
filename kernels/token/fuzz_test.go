package token_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/token"
)

// FuzzLoad: whatever is read can be used, and what is refused gives nothing.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(small), "ab1qc <x>")
	f.Add([]byte(strings.Replace(small, `{"type": "Split", "pattern": {"Regex": "[0-9]"}, "behavior": "Isolated", "invert": false}`,
		`{"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true}, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}]}`, 1)), "a b1")
	f.Add([]byte(strings.Replace(small, `"byte_fallback": false`, `"byte_fallback": true`, 1)), "\xff☃")
	f.Add([]byte(strings.Replace(small, `"a": 1`, `"\ud800": 1`, 1)), "a")
	for _, pre := range []string{
		`{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}`,
		`{"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "(?i:'s|'t)|\\p{L}+|\\s+(?!\\S)|\\s+"}, "behavior": "Isolated", "invert": false}, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]}`,
		`{"type": "Sequence", "pretokenizers": [{"type": "Punctuation", "behavior": "Contiguous"}, {"type": "Digits", "individual_digits": false}]}`,
	} {
		f.Add([]byte(strings.NewReplacer(`{"type": "Split", "pattern": {"Regex": "[0-9]"}, "behavior": "Isolated", "invert": false}`, pre,
			`{"type": "Strip", "content": " ", "start": 1, "stop": 0}`, `{"type": "ByteLevel"}`, `{"type": "Replace", "pattern": {"String": "q"}, "content": "b"}`, `{"type": "NFC"}`).Replace(small)), "ab 'ſ \u0301\n  b1é")
	}
	f.Add([]byte(strings.Repeat(`{"model":`, 100)), "")
	f.Add([]byte(`{"added_tokens": [[[[`), "")
	f.Fuzz(func(t *testing.T, body []byte, text string) {
		tk, err := token.Load(body)
		if err != nil {
			if tk != nil {
				t.Error("got a tokenizer beside an error")
			}
			return
		}
		if len(text) < 1<<10 {
			mustUse(t, tk, text)
		}
	})
}

func mustUse(t *testing.T, e token.Encoder, text string) {
	t.Helper()
	ids := e.Encode(text, true)
	for _, id := range ids {
		if _, ok := e.Token(id); !ok {
			t.Fatalf("%q: got the id %d, which has no token", text, id)
		}
	}
	if _, err := e.Decode(ids, true); err != nil {
		t.Errorf("%q: %v", text, err)
	}
}

// FuzzEncode: text comes back, and both forms of the vocabulary give the same ids.
func FuzzEncode(f *testing.F) {
	tk, spm := exampleTokenizer(f), exampleSPM(f)
	for _, x := range exampleCorpus(f).Cases {
		f.Add(x.Text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			mustUse(t, tk, text)
			mustUse(t, spm, text)
			return
		}
		ids := tk.Encode(text, false)
		want := strings.ReplaceAll(text, "▁", " ") // the mark of a space cannot be told from a space
		if back, err := tk.Decode(ids, false); err != nil || back != want {
			t.Errorf("got %q %v back, want %q", back, err, want)
		}
		if got := tk.Encode(text, true); !slices.Equal(got, append([]uint32{1}, ids...)) {
			t.Errorf("%q: with BOS: got %v, want it before %v", text, got, ids)
		}
		if got := spm.Encode(text, false); !slices.Equal(got, ids) {
			t.Errorf("%q: GGUF gives %v, tokenizer.json %v", text, got, ids)
		}
	})
}

// FuzzFromGGUF: a vocabulary that is read can be used.
func FuzzFromGGUF(f *testing.F) {
	kvs := func(model string, v token.Vocabulary) []byte {
		var b bytes.Buffer
		if err := gguf.Write(&b, []gguf.KV{
			{Key: "tokenizer.ggml.model", Value: gguf.String(model)}, {Key: "tokenizer.ggml.tokens", Value: gguf.Strings(v.Tokens)},
			{Key: "tokenizer.ggml.scores", Value: gguf.Float32s(v.Scores)}, {Key: "tokenizer.ggml.token_type", Value: gguf.Int32s(v.Types)},
		}, nil); err != nil {
			f.Fatal(err)
		}
		return b.Bytes()
	}
	v := tinyVocabulary()
	f.Add(kvs("llama", v), "ab <s> é\xff")
	f.Add(kvs("gpt2", v), "ab")
	v.Scores = v.Scores[1:]
	f.Add(kvs("llama", v), "ab")
	f.Add(kvs("llama", v)[:100], "ab")
	_, small := both(f, "qwen2")
	for _, pre := range []string{"qwen2", "falcon", "deepseek-coder", "tekken"} {
		var b bytes.Buffer
		list := slices.Clone(small.KVs)
		for i := range list {
			if list[i].Key == "tokenizer.ggml.pre" {
				list[i].Value = gguf.String(pre)
			}
		}
		if err := gguf.Write(&b, list, nil); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes(), "it's 12345 <|im_start|> \n\n x\xff中文")
	}
	f.Fuzz(func(t *testing.T, body []byte, text string) {
		file, err := gguf.Open(bytes.NewReader(body), int64(len(body)))
		if err != nil {
			return
		}
		if m, err := token.FromGGUF(file); err == nil && len(text) < 1<<10 {
			mustUse(t, m, text)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	var text strings.Builder
	for _, x := range exampleCorpus(b).Cases {
		text.WriteString(x.Text)
	}
	for name, e := range map[string]token.Encoder{"tokenizer.json": exampleTokenizer(b), "GGUF": exampleSPM(b)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(text.Len()))
			for b.Loop() {
				e.Encode(text.String(), true)
			}
		})
	}
}
