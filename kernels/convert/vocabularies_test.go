package convert

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

func tokenizerKeys(kvs []gguf.KV) []gguf.KV {
	return slices.DeleteFunc(slices.Clone(kvs), func(kv gguf.KV) bool { return !strings.HasPrefix(kv.Key, "tokenizer.") })
}

// TestTokenizerKeysEqualTheConverters compares every tokenizer key, its type,
// value and place, with those that llama.cpp's converter wrote.
func TestTokenizerKeysEqualTheConverters(t *testing.T) {
	kinds := map[string]int{}
	for _, fixture := range models(t) {
		theirs, _ := openGGUF(t, filepath.Join(architecturesDir, fixture, "BF16.gguf"))
		want := tokenizerKeys(theirs.KVs)
		pre, _ := theirs.KV(keyPre)
		stated, _ := pre.Text()
		m := openFixture(t, fixture)
		kvs, err := m.KVs(Options{PreTokenizer: stated})
		if err != nil {
			t.Errorf("%s: %v", fixture, err)
		}
		checkKeys(t, fixture, tokenizerKeys(kvs), want)
		kind, _ := theirs.KV(keyModel)
		name, _ := kind.Text()
		kinds[name]++

		// these vocabularies are not published: without the choice, all keys but one, and the digest
		kvs, err = m.KVs(Options{})
		var unknown *UnknownPreTokenizerError
		if name == "gpt2" {
			if !errors.As(err, &unknown) || len(unknown.Digest) != 64 {
				t.Errorf("%s: got %v, want the digest of a pre-tokenizer that is not known", fixture, err)
			}
			want = slices.DeleteFunc(want, func(kv gguf.KV) bool { return kv.Key == keyPre })
		} else if err != nil {
			t.Errorf("%s: %v", fixture, err)
		}
		checkKeys(t, fixture+" by itself", tokenizerKeys(kvs), want)
	}
	if kinds["gpt2"] < 6 || kinds["llama"] < 8 {
		t.Errorf("got %v, want at least 6 byte-level and 8 SentencePiece vocabularies", kinds)
	}
}

func checkKeys(t *testing.T, name string, got, want []gguf.KV) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i].Key != want[i].Key || !got[i].Value.Equal(want[i].Value) {
			t.Errorf("%s: key %d: got %v, want %v", name, i, at(got, i), at(want, i))
			return
		}
	}
}

func at(kvs []gguf.KV, i int) any {
	if i >= len(kvs) {
		return "the end"
	}
	return kvs[i]
}
