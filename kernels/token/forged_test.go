package token_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/token"
)

// TestParityFindsWhatAConverterCanLose changes the vocabulary of a GGUF as
// real conversions have gone wrong, and compares it with tokenizer.json.
func TestParityFindsWhatAConverterCanLose(t *testing.T) {
	tk := exampleTokenizer(t)
	id := func(text string) uint32 {
		n, ok := tk.ID(text)
		if !ok {
			t.Fatalf("%q is no token", text)
		}
		return n
	}
	for _, x := range []struct {
		name, key string
		change    func(gguf.Value) gguf.Value
		want      string
	}{
		{"BOS not added", "add_bos_token", func(gguf.Value) gguf.Value { return gguf.Bool(false) }, `special tokens added: true, position 0`},
		{"EOS added", "add_eos_token", func(gguf.Value) gguf.Value { return gguf.Bool(true) }, `got 2 ("</s>"), want the end after 1 ids`},
		{"another BOS", "bos_token_id", func(gguf.Value) gguf.Value { return gguf.Uint32(2) }, `got 2 ("</s>"), want 1 ("<s>")`},
		{"a space put before the text", "add_space_prefix", func(gguf.Value) gguf.Value { return gguf.Bool(true) }, `("▁`},
		{"a score changed", "scores", func(v gguf.Value) gguf.Value {
			scores := slices.Clone(v.Float32s())
			for _, text := range []string{"th", "he", "▁t", "▁th"} {
				if n, ok := tk.ID(text); ok {
					scores[n] = -5000
				}
			}
			return gguf.Float32s(scores)
		}, "ids: case"},
		{"a special token that is none", "token_type", func(v gguf.Value) gguf.Value {
			types := make([]int32, v.Len)
			for i, n := range v.Ints() {
				types[i] = int32(n)
			}
			types[id("<|user|>")] = token.TypeNormal
			return gguf.Int32s(types)
		}, `<|user|>`},
		{"two tokens swapped", "tokens", func(v gguf.Value) gguf.Value {
			tokens := slices.Clone(v.Strings())
			a, b := id("7"), id("8")
			tokens[a], tokens[b] = tokens[b], tokens[a]
			return gguf.Strings(tokens)
		}, `("7"), want`},
	} {
		kvs := slices.Clone(exampleKVs(t))
		i := slices.IndexFunc(kvs, func(kv gguf.KV) bool { return kv.Key == "tokenizer.ggml."+x.key })
		if i < 0 {
			t.Errorf("%s: the file has no %s", x.name, x.key)
			continue
		}
		kvs[i].Value = x.change(kvs[i].Value)
		spm, err := token.FromGGUF(openKVs(t, kvs))
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
			continue
		}
		report, err := token.Parity(t.Context(), token.Local(tk), token.Local(spm), token.Corpus(tk, 0))
		if err != nil {
			t.Fatal(err)
		}
		if report.Verdict != kernels.Failed || !slices.ContainsFunc(report.Findings, func(f kernels.Finding) bool { return strings.Contains(f.String(), x.want) }) {
			t.Errorf("%s: got the verdict %s and %v, want failed with %q", x.name, report.Verdict, report.Findings, x.want)
		}
	}
}
