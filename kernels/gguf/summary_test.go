package gguf

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
)

func summaryOf(t *testing.T, b []byte) Summary {
	t.Helper()
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return f.Summarize()
}

// TestSummaryOfARealFile reads what llama.cpp's converter and quantizer wrote.
func TestSummaryOfARealFile(t *testing.T) {
	b, err := os.ReadFile(shared.Path(t, "data", "llama-grouped", "Q4_K_M-im.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	s := summaryOf(t, b)
	if s.Architecture != "llama" || s.Parameters != 3279120 || s.Bytes != 1529856+456960+9280 {
		t.Errorf("got %s, %d, %d", s.Architecture, s.Parameters, s.Bytes)
	}
	if want := []TypeCount{{"Q4_K", 25, 2719744, 1529856}, {"Q6_K", 5, 557056, 456960}, {"F32", 10, 2320, 9280}}; !slices.Equal(s.Types, want) {
		t.Errorf("got %v, want %v", s.Types, want)
	}
	if k := s.Tokenizer; k == nil || k.Model != "llama" || k.Pre != "default" || k.Vocabulary != 512 || k.Control != 2 ||
		!slices.Equal(k.Special, []SpecialToken{{"bos_token_id", 1, "<s>"}, {"eos_token_id", 2, "</s>"}}) {
		t.Errorf("got %+v", k)
	}
	if q := s.Quantization; q == nil || *q.FileType != 15 || *q.Version != 2 {
		t.Errorf("got %+v", q)
	}
	if want := []Named{{"file", `"tinyA.imatrix.gguf"`}, {"dataset", `"corpus.txt"`}, {"entries_count", "28"}, {"chunks_count", "40"}}; !slices.Equal(s.Imatrix, want) {
		t.Errorf("got %v, want %v", s.Imatrix, want)
	}
	if !slices.Contains(s.Sizes, Named{"attention.head_count_kv", "2"}) || len(s.Warnings) > 0 {
		t.Errorf("got %v and %q", s.Sizes, s.Warnings)
	}
}

// TestSummaryDoubts: what the header says of itself is held against what it lists.
func TestSummaryDoubts(t *testing.T) {
	kvs := func(more ...KV) []KV {
		return append([]KV{{"general.architecture", String("llama")}, {"llama.block_count", Uint32(2)}, {"tokenizer.ggml.tokens", Strings([]string{"<s>", "a"})}}, more...)
	}
	tensors := func(names ...string) []TensorSource {
		var list []TensorSource
		for _, name := range names {
			list = append(list, TensorSource{Name: name, Dims: []uint64{8, 2}, Type: F32, Data: zeros(64)})
		}
		return list
	}
	sound := tensors("token_embd.weight", "blk.0.a.weight", "blk.1.a.weight")
	for name, c := range map[string]struct {
		kvs     []KV
		tensors []TensorSource
		want    string
	}{
		"sound":                 {kvs(), sound, ""},
		"no architecture":       {nil, nil, "general.architecture is missing"},
		"fewer blocks":          {kvs(), tensors("token_embd.weight", "blk.0.a.weight"), "llama.block_count is 2 and tensors of 1 blocks are here"},
		"more blocks":           {kvs(), append(slices.Clone(sound), tensors("blk.7.a.weight")...), "tensors of 3 blocks"},
		"other vocabulary":      {append(kvs()[:2], KV{"tokenizer.ggml.tokens", Strings([]string{"a"})}), sound, "the vocabulary has 1 tokens and token_embd.weight 2 rows"},
		"special token outside": {kvs(KV{"tokenizer.ggml.eos_token_id", Uint32(2)}), sound, "eos_token_id is 2, beyond the vocabulary of 2 tokens"},
		"special token of -1":   {kvs(KV{"tokenizer.ggml.eos_token_id", Uint32(1<<32 - 1)}), sound, "eos_token_id is 4294967295, beyond"},
	} {
		got := strings.Join(summaryOf(t, encoded(c.kvs, c.tensors)).Warnings, "\n")
		if !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestTemplatesAreToldApartAndNotRendered: another template shows by its digest
// alone, and one that would never end as text costs nothing.
func TestTemplatesAreToldApartAndNotRendered(t *testing.T) {
	of := func(text string) Summary {
		return summaryOf(t, encoded([]KV{{"tokenizer.chat_template", String(text)}, {"tokenizer.chat_template.tool_use", String("x")}}, nil))
	}
	honest, changed := of("{{ bos }}\n{% if a %}x{% endif %}"), of("{{ bos }}\n{% if a %}y{% endif %}")
	if len(honest.Templates) != 2 || honest.Templates[0].FirstLine != "{{ bos }}" || honest.Templates[0].Bytes != 32 || len(honest.Templates[0].SHA256) != 64 ||
		honest.Templates[0].SHA256 == changed.Templates[0].SHA256 || honest.Templates[1] != changed.Templates[1] {
		t.Errorf("got %+v and %+v", honest.Templates, changed.Templates)
	}
	bomb := of("{% for i in range(10**12) %}{{ ().__class__.__base__.__subclasses__() }}{% endfor %}" + strings.Repeat("x", 1000))
	if got := bomb.Templates[0].FirstLine; len(got) != shown+len("…") || !strings.HasPrefix(got, "{% for i in range(10**12)") {
		t.Errorf("got %q", got)
	}
}

// TestOddValuesAreNoSurprise: keys of other types than expected are passed over.
func TestOddValuesAreNoSurprise(t *testing.T) {
	s := summaryOf(t, encoded([]KV{
		{"general.architecture", Uint32(7)}, {"general.file_type", String("Q4_K_M")}, {"general.quantization_version", Float32(2)},
		{"tokenizer.chat_template", Strings([]string{"a"})}, {"tokenizer.ggml.model", Strings([]string{"llama"})}, {"tokenizer.ggml.tokens", Int32s([]int32{1})},
		{"tokenizer.ggml.bos_token_id", String("<s>")}, {"tokenizer.ggml.token_type", Uint8s([]uint8{3, 3})}, {"quantize.imatrix.file", Uint8(1)},
	}, nil))
	if s.Architecture != "" || s.Quantization != nil || len(s.Templates) > 0 || s.Tokenizer != nil || len(s.Imatrix) != 1 {
		t.Errorf("got %+v", s)
	}
}

// TestArraysNarrowerThanAssumedKeepTheirWidth: a reader that takes 4 bytes where an
// array has elements of 1 would run over its end.
func TestArraysNarrowerThanAssumedKeepTheirWidth(t *testing.T) {
	b := encoded([]KV{{"tokenizer.ggml.model", String("llama")}, {"tokenizer.ggml.token_type", Uint8s([]uint8{3, 1, 3})}, {"i16", Value{Type: TypeArray, Elem: TypeInt16, Len: 2, data: []byte{255, 255, 2, 0}}}}, nil)
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	v, _ := f.KV("i16")
	if got := f.Summarize().Tokenizer.Control; got != 2 || !slices.Equal(v.Ints(), []int64{-1, 2}) {
		t.Errorf("got %d control tokens and %v, want 2 and [-1 2]", got, v.Ints())
	}
}
