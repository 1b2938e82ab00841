package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/token"
)

// byteLevelVocabulary is a tokenizer.json of byte-level byte-pair encoding: the
// vocabulary, over it the added tokens, [PADi] where there is neither, and the merges.
// The error is an [*UnknownPreTokenizerError] when only the pre-tokenizer could not be named.
func byteLevelVocabulary(s vocabularySource) ([]gguf.KV, error) {
	if s.body == nil {
		return nil, errors.New("tokenizer.json: got none, and no tokenizer.model, want one of them; vocab.json and merges.txt alone are not converted here")
	}
	ids, err := s.tokenizer.vocabIDs()
	if err != nil {
		return nil, err
	}
	added, err := s.effectiveAdded(ids)
	if err != nil {
		return nil, err
	}
	merges, err := s.tokenizer.merges()
	if err != nil {
		return nil, err
	}
	tokenizer, pre, preErr := s.namePre()
	texts := make([]string, s.size)
	has := make([]bool, s.size)
	put := func(id int64, text string) error {
		if id < 0 || id >= s.size {
			return fmt.Errorf("tokenizer.json: got the id %d for %q, want one below vocab_size %d of config.json", id, text, s.size)
		}
		texts[id], has[id] = text, true
		return nil
	}
	for _, text := range sortedKeys(ids) {
		if err := put(ids[text], text); err != nil {
			return nil, err
		}
	}
	for id, t := range added {
		if err := put(id, t.Content); err != nil {
			return nil, err
		}
	}
	v := vocabulary{}
	for id := range s.size {
		switch t, isAdded := added[id]; {
		case !has[id]:
			v.add(padding(id), 0, TokenUnused)
		case isAdded:
			t.Content = readBack(tokenizer, t)
			v.add(t.text(), 0, t.kind())
		default:
			v.add(texts[id], 0, TokenNormal)
		}
	}
	special, err := s.specialKVs(-1)
	if err != nil {
		return nil, err
	}
	kvs := []gguf.KV{{Key: keyModel, Value: gguf.String("gpt2")}}
	if preErr == nil {
		kvs = append(kvs, gguf.KV{Key: keyPre, Value: gguf.String(pre)})
	}
	kvs = append(kvs, gguf.KV{Key: keyTokens, Value: gguf.Strings(v.tokens)}, gguf.KV{Key: keyTypes, Value: gguf.Int32s(v.kinds)})
	if len(merges) > 0 {
		kvs = append(kvs, gguf.KV{Key: keyMerges, Value: gguf.Strings(merges)})
	}
	return append(kvs, special...), preErr
}

// namePre loads the tokenizer, as far as it is read here, and names its pre-tokenizer.
func (s *vocabularySource) namePre() (*token.Tokenizer, string, error) {
	tokenizer, err := token.Load(s.body)
	switch {
	case s.pre != "":
		return tokenizer, s.pre, nil
	case err != nil:
		return nil, "", fmt.Errorf("pre-tokenizer: %w", err)
	}
	pre, err := preTokenizer(tokenizer)
	return tokenizer, pre, err
}

// readBack is the converter's normalization of an added token that is sought in
// plain text: what the tokenizer makes of its ids.
func readBack(tokenizer *token.Tokenizer, t addedToken) string {
	if t.Normalized || tokenizer == nil {
		return t.Content
	}
	text, err := tokenizer.Decode(tokenizer.Encode(t.Content, false), false)
	if err != nil {
		return t.Content
	}
	return text
}

// vocabIDs reads the model's vocabulary; no id may stand twice.
func (t *tokenizerJSON) vocabIDs() (map[string]int64, error) {
	if t.Model.Type != "BPE" {
		return nil, fmt.Errorf("tokenizer.json: model: got %q, want BPE", t.Model.Type)
	}
	var ids map[string]int64
	if err := json.Unmarshal(t.Model.Vocab, &ids); err != nil {
		return nil, fmt.Errorf("tokenizer.json: vocab: %w", err)
	}
	texts := make(map[int64]string, len(ids))
	for _, text := range sortedKeys(ids) {
		if other, twice := texts[ids[text]]; twice {
			return nil, fmt.Errorf("tokenizer.json: vocab: got %q and %q for id %d, want one text an id", other, text, ids[text])
		}
		texts[ids[text]] = text
	}
	return ids, nil
}

// merges reads both forms, "a b" and ["a", "b"], and writes the first; a space
// inside a token becomes Ġ, as in the converter.
func (t *tokenizerJSON) merges() ([]string, error) {
	if !set(t.Model.Merges) {
		return nil, nil
	}
	var joined []string
	if json.Unmarshal(t.Model.Merges, &joined) == nil {
		return joined, nil
	}
	var pairs [][]string
	if err := json.Unmarshal(t.Model.Merges, &pairs); err != nil {
		return nil, fmt.Errorf("tokenizer.json: merges: got neither texts nor pairs of texts: %w", err)
	}
	joined = make([]string, len(pairs))
	for i, pair := range pairs {
		if len(pair) != 2 {
			return nil, fmt.Errorf("tokenizer.json: merges: entry %d: got %d tokens, want 2", i, len(pair))
		}
		joined[i] = strings.ReplaceAll(pair[0], " ", "Ġ") + " " + strings.ReplaceAll(pair[1], " ", "Ġ")
	}
	return joined, nil
}
