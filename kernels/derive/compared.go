package derive

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

const leftMetric = "tokenizer_keys_left"

// comparedKeys are the keys that a comparison of tokenizers sees in the ids and texts
// that it asks for. Any other key is held against the publisher's files.
var comparedKeys = []string{
	"tokenizer.ggml.model", "tokenizer.ggml.pre", tokensKey, "tokenizer.ggml.scores", "tokenizer.ggml.token_type", "tokenizer.ggml.merges",
	"tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token", "tokenizer.ggml.add_sep_token", "tokenizer.ggml.add_space_prefix",
	"tokenizer.ggml.remove_extra_whitespaces", "tokenizer.ggml.precompiled_charsmap",
	"tokenizer.ggml.normalizer.lowercase", "tokenizer.ggml.normalizer.strip_accents",
}

// published is a source of which nothing but what the publisher states is wanted of
// the tokenizer. Where the rest of a vocabulary could not be derived, it need not be.
func (s *side) published() (*side, error) {
	if s.snapshot() && s.model == nil {
		return s, nil // no mapping: no key is compared
	}
	if s.model == nil {
		return nil, errors.New("got a GGUF file, want a publisher's snapshot: beside another GGUF file no key of the tokenizer may differ")
	}
	p := *s
	p.padded = true
	if s.tokenErr == nil {
		return &p, nil
	}
	stated, err := s.model.PublishedKVs()
	if err != nil {
		p.tokenErr = errors.Join(s.tokenErr, err)
		return &p, nil
	}
	p.tokenErr = nil
	p.kvs = slices.Clone(s.kvs)
	for _, e := range stated {
		if _, has := kv(p.kvs, e.Key); !has {
			p.kvs = append(p.kvs, e)
		}
	}
	return &p, nil
}

// splitTokenizer parts the findings that a comparison of tokenizers answers from the others.
func splitTokenizer(found []kernels.Finding) (held, left []kernels.Finding) {
	held = []kernels.Finding{}
	for _, f := range found {
		key, isKey := strings.CutPrefix(f.Where, "key ")
		if isKey && f.Check == "metadata" && slices.Contains(comparedKeys, key) {
			left = append(left, f)
		} else {
			held = append(held, f)
		}
	}
	return held, left
}

// leaveTokenizer gives the findings that are not left, and counts those that are.
func leaveTokenizer(dst *side, found []kernels.Finding, report *kernels.Report) ([]kernels.Finding, error) {
	held, left := splitTokenizer(found)
	held = append(held, rowsOfTokens(dst)...)
	m := kernels.Metric{Name: leftMetric, Unit: "keys", Value: float64(len(left)), Identity: map[string]string{}}
	for _, f := range left {
		key, _ := strings.CutPrefix(f.Where, "key ")
		m.Identity[key] = fmt.Sprintf("got %s, the known converter writes %s", f.Got, f.Want)
	}
	sum, err := gguf.TokenizerDigest(dst.kvs)
	if err != nil {
		held = append(held, kernels.Finding{Check: "metadata", Where: "keys tokenizer.*", Got: "none", Want: "those of a vocabulary", Hint: err.Error()})
	} else {
		m.Identity["tokenizer"] = sum.String()
	}
	report.Metrics = append(report.Metrics, m)
	return held, nil
}

// rowsOfTokens holds the number of tokens against the rows of the embedding: llama.cpp loads no other file.
func rowsOfTokens(dst *side) []kernels.Finding {
	value, _ := kv(dst.kvs, tokensKey)
	embedding := dst.byName["token_embd.weight"]
	if embedding == nil || len(embedding.dims) != 2 {
		return []kernels.Finding{{Check: "metadata", Where: "key " + tokensKey, Got: fmt.Sprintf("%d tokens", value.Len), Want: "one for each row of token_embd.weight, which is no matrix here"}}
	}
	if n := embedding.dims[1]; uint64(len(value.Strings())) != n {
		return []kernels.Finding{{Check: "metadata", Where: "key " + tokensKey, Got: fmt.Sprintf("%d tokens", value.Len), Want: fmt.Sprintf("%d, one for each row of token_embd.weight", n), Hint: "no loader takes such a file"}}
	}
	return nil
}

// leftSeen tells that a planted change of a key that is left is named, and gives another digest.
func (c *controls) leftSeen(key string, planted []gguf.KV, held, left []kernels.Finding) (bool, string, error) {
	about := func(f kernels.Finding) bool {
		where, _, _ := strings.Cut(f.Where, " element ")
		return where == "key "+key
	}
	if i := slices.IndexFunc(held, about); i >= 0 {
		return true, held[i].String(), nil
	}
	own, err := gguf.TokenizerDigest(c.dst.kvs)
	if err != nil {
		return false, err.Error(), nil
	}
	other, err := gguf.TokenizerDigest(planted)
	if err != nil {
		return false, err.Error(), nil
	}
	i := slices.IndexFunc(left, about)
	if i < 0 || own == other {
		return false, "no finding about " + key, nil
	}
	return true, "left to a comparison of tokenizer " + other.String() + ": " + left[i].String(), nil
}
