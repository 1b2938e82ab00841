package token_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/token"
)

const architecturesDir = "../../fixtures/architectures"

// both reads a checkpoint's tokenizer.json and the file that llama.cpp's converter made of it.
func both(t testing.TB, name string) (*token.Tokenizer, *gguf.File) {
	t.Helper()
	tk, err := token.Load(readFile(t, architecturesDir, name, "hf", "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	body := readFile(t, filepath.Join(architecturesDir, name, "BF16.gguf"))
	f, err := gguf.Open(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		t.Fatal(err)
	}
	return tk, f
}

func TestParityOfByteLevelConversions(t *testing.T) {
	for _, name := range []string{"llama3", "qwen2", "qwen3"} {
		tk, f := both(t, name)
		e, err := token.FromGGUF(f)
		if err != nil {
			t.Fatal(err)
		}
		corpus := token.Corpus(tk, 0)
		if name != "llama3" { // NFC, which llama.cpp does not do
			report, err := token.Parity(t.Context(), token.Local(tk), token.Local(e), corpus)
			if err != nil || report.Verdict != kernels.Failed {
				t.Errorf("%s: got %v %v, want decomposed texts to differ", name, report.Verdict, err)
			}
			for _, finding := range report.Findings {
				var i int
				if _, err := fmt.Sscanf(finding.Where, "case %d,", &i); err != nil || norm.NFC.IsNormalString(corpus[i]) {
					t.Errorf("%s: %s", name, finding)
				}
			}
			corpus = slices.DeleteFunc(corpus, func(s string) bool { return !norm.NFC.IsNormalString(s) })
		}
		report, err := token.Parity(t.Context(), token.Local(tk), token.Local(e), corpus)
		if err != nil || report.Verdict != kernels.Passed {
			t.Errorf("%s: got %v %v %v %v, want passed", name, report.Verdict, err, report.Findings, report.Controls)
		}
	}
}

// TestByteLevelRefusals changes one thing in a file of the converter.
func TestByteLevelRefusals(t *testing.T) {
	_, f := both(t, "llama3")
	for _, x := range []struct {
		name, key string
		change    func(gguf.Value) gguf.Value
		want      string
	}{
		{"an unknown pre-tokenizer", "pre", func(gguf.Value) gguf.Value { return gguf.String("tekken") }, `got the pre-tokenizer "tekken"`},
		{"a merge of nothing known", "merges", func(v gguf.Value) gguf.Value { return gguf.Strings(append(slices.Clone(v.Strings()), "qq zz")) }, `entry 40: got "qq zz", want two tokens that make a third`},
		{"a merge twice", "merges", func(v gguf.Value) gguf.Value { return gguf.Strings(append(slices.Clone(v.Strings()), v.Strings()[3])) }, "entry 40: got"},
		{"a merge of three", "merges", func(v gguf.Value) gguf.Value { return gguf.Strings([]string{"a b c"}) }, `entry 0: got "a b c", want two tokens with a space between`},
		{"a token twice", "tokens", func(v gguf.Value) gguf.Value {
			tokens := slices.Clone(v.Strings())
			tokens[5] = tokens[4]
			return gguf.Strings(tokens)
		}, "id 5: got the token"},
		{"an empty token", "tokens", func(v gguf.Value) gguf.Value {
			tokens := slices.Clone(v.Strings())
			tokens[5] = ""
			return gguf.Strings(tokens)
		}, "id 5: got a token of 0 bytes"},
		{"too few types", "token_type", func(gguf.Value) gguf.Value { return gguf.Int32s([]int32{1}) }, "got 1 types for 320 tokens"},
		{"a type beyond", "token_type", func(gguf.Value) gguf.Value { return gguf.Int32s([]int32{7}) }, "id 0: got 7, want 1 to 6"},
		{"BOS beyond", "bos_token_id", func(gguf.Value) gguf.Value { return gguf.Uint32(320) }, "got the ids 320 (BOS)"},
	} {
		kvs := slices.Clone(f.KVs)
		i := slices.IndexFunc(kvs, func(kv gguf.KV) bool { return kv.Key == "tokenizer.ggml."+x.key })
		kvs[i].Value = x.change(kvs[i].Value)
		if _, err := token.FromGGUF(openKVs(t, kvs)); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: got %v, want %q", x.name, err, x.want)
		}
	}
}

// TestDoubleBOS: the template writes what the tokenizer adds.
func TestDoubleBOS(t *testing.T) {
	_, f := both(t, "llama3")
	for _, x := range []struct {
		name, template string
		add            bool
		want           string
	}{
		{"a variable", "{{- bos_token }}{% for m in messages %}{{ m }}{% endfor %}", true, "a template that writes bos_token"},
		{"the token itself", "{{ '<|begin_of_text|>' }}{{ messages }}", true, `a template that writes "<|begin_of_text|>"`},
		{"only the template", "{{ bos_token }}", false, ""},
		{"only the tokenizer", "{{ messages }}", true, ""},
		{"in a comment", "{# bos_token #}{{ messages }}", true, ""},
		{"another name", "{{ no_bos_tokens }}", true, ""},
	} {
		kvs := slices.Clone(f.KVs)
		for i, kv := range kvs {
			switch kv.Key {
			case "tokenizer.chat_template":
				kvs[i].Value = gguf.String(x.template)
			case "tokenizer.ggml.add_bos_token":
				kvs[i].Value = gguf.Bool(x.add)
			}
		}
		e, err := token.FromGGUF(openKVs(t, kvs))
		if err != nil {
			t.Fatal(err)
		}
		got := e.(*token.ByteLevel).Warnings()
		if (x.want == "") != (len(got) == 0) || x.want != "" && !strings.Contains(got[0].Got, x.want) {
			t.Errorf("%s: got %v, want %q", x.name, got, x.want)
		}
		report, err := token.Parity(t.Context(), token.Local(e), token.Local(e), []string{"a b", " th"})
		i := slices.IndexFunc(report.Metrics, func(m kernels.Metric) bool { return m.Name == "warnings" })
		if err != nil || i < 0 || (report.Metrics[i].Value > 0) != (x.want != "") || !strings.Contains(report.Metrics[i].Identity["double BOS"], x.want) {
			t.Errorf("%s: got the metrics %v %v, want a warning in them: %v", x.name, report.Metrics, err, x.want != "")
		}
	}
}
