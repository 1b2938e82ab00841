package convert

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/token"
)

// TestPreTokenizersOfPublishedVocabularies finds the name that llama.cpp's own
// files of published vocabularies have. WEIGHMASTER_VOCAB is their folder.
func TestPreTokenizersOfPublishedVocabularies(t *testing.T) {
	folder := os.Getenv("WEIGHMASTER_VOCAB")
	switch {
	case folder != "":
	case os.Getenv("CI") == "true":
		t.Fatal("WEIGHMASTER_VOCAB is not set; .ci/interop/install-vocab makes it")
	default:
		t.Skip("WEIGHMASTER_VOCAB is not set: no published vocabularies to name")
	}
	for _, name := range []string{"command-r", "deepseek-coder", "falcon", "gpt-2", "llama-bpe", "qwen2", "refact", "starcoder"} {
		f, _ := openGGUF(t, filepath.Join(folder, "ggml-vocab-"+name+".gguf"))
		e, err := token.FromGGUF(f)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := preTokenizer(e); got != name {
			t.Errorf("%s: got %q %v", name, got, err)
		}
		var unknown *UnknownPreTokenizerError
		if got, err := preTokenizer(otherEnd{e}); !errors.As(err, &unknown) || !strings.Contains(err.Error(), unknown.Digest) {
			t.Errorf("%s, one id changed: got %q %v, want its digest refused", name, got, err)
		}
	}
}

// otherEnd is a tokenizer whose last id is another.
type otherEnd struct{ token.Encoder }

func (s otherEnd) Encode(text string, addSpecial bool) []uint32 {
	ids := s.Encoder.Encode(text, addSpecial)
	ids[len(ids)-1]++
	return ids
}

func TestPretokenizerTable(t *testing.T) {
	if len(pretokenizers) < 90 {
		t.Errorf("got %d vocabularies, want the converter's", len(pretokenizers))
	}
	for digest, name := range pretokenizers {
		if len(digest) != 64 || strings.Trim(digest, "0123456789abcdef") != "" || name == "" {
			t.Errorf("%q: %q: want a SHA-256 and a name", digest, name)
		}
	}
}
