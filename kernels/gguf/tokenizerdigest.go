package gguf

import (
	"bufio"
	"cmp"
	"errors"
	"slices"
	"strings"

	godigest "github.com/opencontainers/go-digest"
)

// namedVocabularies are the words in general.name by which llama.cpp changes how a
// vocabulary works (src/llama-vocab.cpp, llama_vocab::impl::load).
var namedVocabularies = []string{"phi-3", "phi3", "modern-bert"}

// TokenizerDigest is the sha256 over all that llama.cpp makes a tokenizer of: every
// key that starts with "tokenizer.", sorted, each as GGUF writes it in little-endian
// order (key, type, value); general.architecture likewise; and which of a few words
// general.name has, as an array of strings under that key. Files of the same digest
// tokenize alike. An error tells that there is no key of a tokenizer.
func TokenizerDigest(kvs []KV) (godigest.Digest, error) {
	var own []KV
	name := ""
	for _, kv := range kvs {
		switch {
		case strings.HasPrefix(kv.Key, "tokenizer."), kv.Key == "general.architecture":
			own = append(own, kv)
		case kv.Key == "general.name":
			name, _ = kv.Value.Text()
		}
	}
	if !slices.ContainsFunc(own, func(kv KV) bool { return strings.HasPrefix(kv.Key, "tokenizer.") }) {
		return "", errors.New("metadata: got no key tokenizer.…, want those of a vocabulary")
	}
	words := []string{}
	for _, word := range namedVocabularies {
		if strings.Contains(strings.ToLower(name), word) {
			words = append(words, word)
		}
	}
	own = append(own, KV{"general.name", Strings(words)})
	slices.SortFunc(own, func(a, b KV) int { return cmp.Compare(a.Key, b.Key) })
	d := godigest.SHA256.Digester()
	e := &encoder{w: bufio.NewWriter(d.Hash())}
	for _, kv := range own {
		e.kv(kv)
	}
	if e.err == nil {
		e.err = e.w.Flush()
	}
	return d.Digest(), e.err
}
