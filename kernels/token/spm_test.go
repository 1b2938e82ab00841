package token_test

import (
	"bytes"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/token"
)

func exampleKVs(t testing.TB) []gguf.KV {
	t.Helper()
	m, err := convert.Open(os.DirFS(modelDir + "/snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	kvs, err := m.KVs(convert.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return kvs
}

func openKVs(t testing.TB, kvs []gguf.KV) *gguf.File {
	t.Helper()
	var b bytes.Buffer
	if err := gguf.Write(&b, kvs, nil); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func exampleSPM(t testing.TB) *token.SPM {
	t.Helper()
	spm, err := token.FromGGUF(openKVs(t, exampleKVs(t)))
	if err != nil {
		t.Fatal(err)
	}
	return spm.(*token.SPM)
}

func TestGGUFVocabularyEqualsTheLibrary(t *testing.T) {
	spm, c := exampleSPM(t), exampleCorpus(t)
	if spm.Size() != 628 {
		t.Errorf("size: got %d, want 628: the ids of [PAD628] and on do not count", spm.Size())
	}
	if len(c.Cases) < 330 {
		t.Fatalf("got %d cases, want at least 330", len(c.Cases))
	}
	for _, x := range c.Cases {
		if got := spm.Encode(x.Text, x.AddSpecial); !slices.Equal(got, x.IDs) {
			t.Errorf("encode %q, special %v: got %v, want %v", x.Text, x.AddSpecial, got, x.IDs)
		}
		checkDecode(t, spm, x)
	}
}

func TestSpacePrefix(t *testing.T) {
	v := tinyVocabulary()
	for _, x := range []struct {
		prefix bool
		text   string
		want   []string
		back   string
	}{
		{true, "ab", []string{"▁ab"}, "ab"},
		{true, " ab", []string{"▁", "▁ab"}, " ab"},
		{true, "ab<s>ab", []string{"▁ab", "<s>", "▁ab"}, "ab<s> ab"},
		{true, "", nil, ""},
		{false, "ab", []string{"ab"}, "ab"},
		{false, " ab", []string{"▁ab"}, " ab"},
		{false, "ab<s>ab", []string{"ab", "<s>", "ab"}, "ab<s>ab"},
		{false, "é", []string{"<0xC3>", "<0xA9>"}, "é"},
		{false, "\xff\xc3", []string{"<0xFF>", "<0xC3>"}, "\xff\xc3"},
	} {
		v.SpacePrefix = x.prefix
		m, err := token.NewSPM(v)
		if err != nil {
			t.Fatal(err)
		}
		ids := m.Encode(x.text, false)
		var got []string
		for _, id := range ids {
			text, _ := m.Token(id)
			got = append(got, text)
		}
		if !slices.Equal(got, x.want) {
			t.Errorf("%q, prefix %v: got %q, want %q", x.text, x.prefix, got, x.want)
		}
		if back, err := m.Decode(ids, false); err != nil || back != x.back {
			t.Errorf("%q, prefix %v: decoded: got %q %v, want %q", x.text, x.prefix, back, err, x.back)
		}
	}
}

// tinyVocabulary knows <s>, every byte, ▁, a, b, ab and ▁ab.
func tinyVocabulary() token.Vocabulary {
	v := token.Vocabulary{AddBOS: true, BOS: 1, EOS: 2}
	put := func(text string, score float32, kind int32) {
		v.Tokens, v.Scores, v.Types = append(v.Tokens, text), append(v.Scores, score), append(v.Types, kind)
	}
	put("<unk>", 0, token.TypeUnknown)
	put("<s>", 0, token.TypeControl)
	put("</s>", 0, token.TypeControl)
	const hex = "0123456789ABCDEF"
	for b := range 256 {
		put("<0x"+string(hex[b>>4])+string(hex[b&15])+">", 0, token.TypeByte)
	}
	for i, text := range []string{"▁", "a", "b", "ab", "▁ab"} {
		put(text, -float32(i), token.TypeNormal)
	}
	return v
}

func TestVocabularyRefusals(t *testing.T) {
	for _, x := range []struct {
		name   string
		change func(*token.Vocabulary)
		want   string
	}{
		{"a token twice", func(v *token.Vocabulary) { v.Tokens[260] = "▁" }, `id 260: got the token "▁", which id 259 is already`},
		{"an empty token", func(v *token.Vocabulary) { v.Tokens[260] = "" }, "id 260: got a token of 0 bytes"},
		{"a byte without a token", func(v *token.Vocabulary) { v.Tokens[3+7], v.Types[3+7] = "x", token.TypeNormal }, "got no token <0x07>"},
		{"a byte token that is none", func(v *token.Vocabulary) { v.Types[260] = token.TypeByte }, `got the byte token "a"`},
		{"no score", func(v *token.Vocabulary) { v.Scores = v.Scores[1:] }, "got 263 scores and 264 types for 264 tokens"},
		{"a score that is no number", func(v *token.Vocabulary) { v.Scores[260] -= inf(); v.Scores[260] += inf() }, "id 260: got a score that is not a number"},
		{"an unknown type", func(v *token.Vocabulary) { v.Types[260] = 9 }, "id 260: got the type 9"},
		{"BOS beyond", func(v *token.Vocabulary) { v.BOS = 264 }, "got the ids 264 (BOS)"},
		{"EOS beyond", func(v *token.Vocabulary) { v.AddEOS, v.EOS = true, 264 }, "264 (EOS)"},
		{"a control token typed otherwise", func(v *token.Vocabulary) { v.Types[2] = token.TypeNormal }, `got the type 1 for "</s>", want 3 (control)`},
		{"nothing", func(v *token.Vocabulary) { *v = token.Vocabulary{} }, "got 0 tokens"},
	} {
		v := tinyVocabulary()
		x.change(&v)
		if _, err := token.NewSPM(v); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: got %v, want %q", x.name, err, x.want)
		}
	}
}

func TestFromGGUFRefusals(t *testing.T) {
	for _, x := range []struct {
		name, key string
		value     gguf.Value
		want      string
	}{
		{"byte-level BPE of no known kind", "tokenizer.ggml.model", gguf.String("gpt2"), `tokenizer.ggml.pre: got the pre-tokenizer "default"`},
		{"another model", "tokenizer.ggml.model", gguf.String("t5"), `tokenizer.ggml.model: got "t5"`},
		{"a model that is no text", "tokenizer.ggml.model", gguf.Uint32(1), "tokenizer.ggml.model: got UINT32, want a string"},
		{"scores of another type", "tokenizer.ggml.scores", gguf.Int32s([]int32{1}), "tokenizer.ggml.scores: got an array of 1 INT32"},
		{"a flag that is a number", "tokenizer.ggml.add_bos_token", gguf.Uint32(1), "add_bos_token: got UINT32, want a BOOL"},
		{"an id that is a text", "tokenizer.ggml.bos_token_id", gguf.String("1"), "bos_token_id: got"},
		{"a name that changes the tokenizer", "general.name", gguf.String("Tiny Phi-3"), `general.name: got "Tiny Phi-3"`},
		{"a table of characters", "tokenizer.ggml.precompiled_charsmap", gguf.Uint8s([]byte{1}), "precompiled_charsmap"},
	} {
		kvs := slices.Clone(exampleKVs(t))
		if i := slices.IndexFunc(kvs, func(kv gguf.KV) bool { return kv.Key == x.key }); i >= 0 {
			kvs[i].Value = x.value
		} else {
			kvs = append(kvs, gguf.KV{Key: x.key, Value: x.value})
		}
		if _, err := token.FromGGUF(openKVs(t, kvs)); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: got %v, want %q", x.name, err, x.want)
		}
	}
	if _, err := token.FromGGUF(openKVs(t, nil)); err == nil || !strings.Contains(err.Error(), "tokenizer.ggml.model: got nothing") {
		t.Errorf("a file without a vocabulary: got %v", err)
	}
}

func inf() float32 { return float32(math.Inf(1)) }
