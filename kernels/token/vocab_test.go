package token_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/token"
)

// published are llama.cpp's vocabularies of published models, each with texts and
// the ids that its publisher's own tokenizer gives. Those that are not read here
// have the reason.
var published = map[string]string{
	"command-r": "", "deepseek-coder": "", "falcon": "", "gpt-2": "", "llama-bpe": "", "llama-spm": "", "mpt": "", "qwen2": "", "qwen35": "", "refact": "", "starcoder": "",
	"bert-bge":     `got "bert", want "llama" or "gpt2"`,
	"deepseek-llm": `got the pre-tokenizer "deepseek-llm"`,
	"gemma-4":      `got "gemma4", want "llama" or "gpt2"`,
	"phi-3":        "llama.cpp treats spaces after special tokens of models so named otherwise",
}

// vocabularies is the folder with llama.cpp's ggml-vocab files; .ci/interop/install-vocab gets them.
func vocabularies(t testing.TB) string {
	t.Helper()
	folder := os.Getenv("WEIGHMASTER_VOCAB")
	switch {
	case folder != "":
	case os.Getenv("CI") == "true":
		t.Fatal("WEIGHMASTER_VOCAB is not set; .ci/interop/install-vocab makes it")
	default:
		t.Skip("WEIGHMASTER_VOCAB is not set: no published vocabularies to compare with")
	}
	return folder
}

func TestPublishedVocabularies(t *testing.T) {
	folder := vocabularies(t)
	texts, err := filepath.Glob(filepath.Join(folder, "ggml-vocab-*.gguf.inp"))
	if err != nil || len(texts) != len(published) {
		t.Fatalf("got %d vocabularies with texts, want %d: %v", len(texts), len(published), err)
	}
	for _, inp := range texts {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(inp), "ggml-vocab-"), ".gguf.inp")
		refused, listed := published[name]
		if !listed {
			t.Errorf("%s: got a vocabulary that this test does not list", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, err := openVocabulary(t, strings.TrimSuffix(inp, ".inp"))
			if refused != "" {
				if err == nil || !strings.Contains(err.Error(), refused) {
					t.Errorf("got %v, want a refusal that says %q", err, refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			checkVocabulary(t, e, inp)
			if family := publishers[name]; family != "" {
				checkVocabulary(t, asPublished(t, strings.TrimSuffix(inp, ".inp"), family), inp)
			}
		})
	}
}

// publishers are byte-level vocabularies whose tokenizer.json is made again
// from the file, with the family's pre-tokenizer, see fixtures/tokenizers.
var publishers = map[string]string{
	"deepseek-coder": "deepseek-coder", "falcon": "falcon", "gpt-2": "gpt-2", "qwen2": "qwen2", "starcoder": "starcoder",
}

func asPublished(t *testing.T, path, name string) *token.Tokenizer {
	t.Helper()
	f := openFile(t, path)
	texts := func(key string) []string {
		v, _ := f.KV("tokenizer.ggml." + key)
		return v.Strings()
	}
	value, _ := f.KV("tokenizer.ggml.token_type")
	types := value.Ints()
	vocab, added := map[string]int{}, []map[string]any{}
	for id, text := range texts("tokens") {
		kind := types[id]
		vocab[text] = id
		if kind == token.TypeNormal || kind == token.TypeUnused {
			continue
		}
		added = append(added, map[string]any{"id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": kind == token.TypeControl})
	}
	cases := readFamilies(t)
	i := slices.IndexFunc(cases.Families, func(x family) bool { return x.Name == name })
	body, err := json.Marshal(map[string]any{
		"version": "1.0", "added_tokens": added, "normalizer": cases.Families[i].Normalizer, "pre_tokenizer": cases.Families[i].Pretokenizer, "decoder": map[string]any{"type": "ByteLevel"},
		"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": texts("merges"), "ignore_merges": cases.Families[i].IgnoreMerges},
	})
	if err != nil {
		t.Fatal(err)
	}
	tk, err := token.Load(body)
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

func openVocabulary(t *testing.T, path string) (token.Encoder, error) {
	t.Helper()
	return token.FromGGUF(openFile(t, path))
}

func openFile(t *testing.T, path string) *gguf.File {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(file, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func checkVocabulary(t *testing.T, e token.Encoder, inp string) {
	t.Helper()
	const mark = "\n__ggml_vocab_test__\n"
	texts := strings.Split(strings.TrimSuffix(string(readFile(t, inp)), mark), mark)
	lines := strings.Split(strings.TrimRight(string(readFile(t, strings.TrimSuffix(inp, ".inp")+".out")), "\n"), "\n")
	if len(texts) != len(lines) || len(texts) < 40 {
		t.Fatalf("got %d texts and %d lists of ids, want 40 and more, as many", len(texts), len(lines))
	}
	for i, text := range texts {
		var want []uint32
		for _, word := range strings.Fields(lines[i]) {
			id, err := strconv.ParseUint(word, 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, uint32(id))
		}
		if got := e.Encode(text, false); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}
