package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sort"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// vocabularyRule makes the keys of a vocabulary. The rules differ between
// architectures, as they do in the converter. Beside an error stand the keys
// that could be derived all the same.
type vocabularyRule func(vocabularySource) ([]gguf.KV, error)

// vocabularyRules are by the name in config.json.
var vocabularyRules = map[string]vocabularyRule{
	"LlamaForCausalLM":               llamaVocabulary,
	"MistralForCausalLM":             llamaVocabulary,
	"MixtralForCausalLM":             llamaVocabulary,
	"Qwen2ForCausalLM":               pieceOrByteLevel,
	"Qwen3ForCausalLM":               pieceOrByteLevel,
	"Qwen2MoeForCausalLM":            byteLevelVocabulary,
	"Qwen3MoeForCausalLM":            byteLevelVocabulary,
	"GPT2LMHeadModel":                byteLevelVocabulary,
	"GemmaForCausalLM":               gemma1Vocabulary,
	"Gemma2ForCausalLM":              gemmaVocabulary,
	"Gemma3ForCausalLM":              gemma3Vocabulary,
	"Gemma3ForConditionalGeneration": gemma3Vocabulary,
	"Phi3ForCausalLM":                phi3Vocabulary,
}

// vocabularySource is what a rule works on.
type vocabularySource struct {
	tokenizerFiles
	config *Config
	size   int64  // config.json's vocab_size
	pre    string // the pre-tokenizer's name where the table has none
}

// tokenizerKVs lists the tokenizer's keys in the converter's order. pre names
// the pre-tokenizer of a byte-level vocabulary that the converter's table does not know.
func (c *Config) tokenizerKVs(fsys fs.FS, pre string) ([]gguf.KV, error) {
	if len(c.Architectures) != 1 || vocabularyRules[c.Architectures[0]] == nil {
		return nil, fmt.Errorf("config.json: architectures: got %q, whose vocabulary is not converted here, want one of %q", c.Architectures, sortedKeys(vocabularyRules))
	}
	if c.VocabSize > maxPieces {
		return nil, fmt.Errorf("config.json: vocab_size: got %d, want at most %d", c.VocabSize, maxPieces)
	}
	files, err := readTokenizerFiles(fsys)
	if err != nil {
		return nil, err
	}
	return vocabularyRules[c.Architectures[0]](vocabularySource{files, c, c.VocabSize, pre})
}

// llamaVocabulary prefers SentencePiece, then a tokenizer.json of that kind, then a byte-level one.
func llamaVocabulary(s vocabularySource) ([]gguf.KV, error) {
	if s.has("tekken.json") && s.body == nil {
		return nil, errors.New("tekken.json: got it without a tokenizer.json, want both; a vocabulary in Mistral's own format is not converted here")
	}
	var kvs []gguf.KV
	if on, ok := s.settings["add_prefix_space"].(bool); ok {
		kvs = append(kvs, gguf.KV{Key: keyAddSpace, Value: gguf.Bool(on)})
	}
	rule := byteLevelVocabulary
	switch {
	case s.has(pieceFile):
		rule = pieceVocabulary
	case s.tokenizer.isPieceBPE():
		rule = pieceBPEVocabulary
	}
	more, err := rule(s)
	if err != nil && more == nil {
		return nil, err
	}
	kvs = append(kvs, more...)
	if s.size == 32016 { // CodeLlama
		extra, extraErr := s.extraSpecials(map[string]int64{"eot": 32010})
		kvs, err = merged(kvs, extra), errors.Join(err, extraErr)
	}
	if s.size == 49152 { // small Granite models
		kvs = merged(kvs, []gguf.KV{{Key: keyAdd("bos"), Value: gguf.Bool(false)}})
	}
	return kvs, err
}

func pieceOrByteLevel(s vocabularySource) ([]gguf.KV, error) {
	if s.has(pieceFile) {
		return pieceVocabulary(s)
	}
	return byteLevelVocabulary(s)
}

func gemmaVocabulary(s vocabularySource) ([]gguf.KV, error) {
	kvs, err := pieceVocabulary(s)
	return append(kvs, gguf.KV{Key: keyAddSpace, Value: gguf.Bool(false)}), err
}

func gemma1Vocabulary(s vocabularySource) ([]gguf.KV, error) {
	kvs, err := pieceVocabulary(s)
	if err != nil {
		return nil, err
	}
	extra, err := s.extraSpecials(map[string]int64{"eot": 107})
	return append(merged(kvs, extra), gguf.KV{Key: keyAddSpace, Value: gguf.Bool(false)}), err
}

func gemma3Vocabulary(s vocabularySource) ([]gguf.KV, error) {
	if s.has(pieceFile) {
		return gemmaVocabulary(s)
	}
	return byteLevelVocabulary(s)
}

func phi3Vocabulary(s vocabularySource) ([]gguf.KV, error) {
	if s.settings["tokenizer_class"] == "GPT2Tokenizer" { // Phi-4
		return byteLevelVocabulary(s)
	}
	return phi3PieceVocabulary(s)
}

// merged writes keys over those that are there already, in their place.
func merged(kvs, over []gguf.KV) []gguf.KV {
	for _, kv := range over {
		if i := slices.IndexFunc(kvs, func(have gguf.KV) bool { return have.Key == kv.Key }); i >= 0 {
			kvs[i] = kv
		} else {
			kvs = append(kvs, kv)
		}
	}
	return kvs
}

// sortedKeys keeps errors and results independent of map order.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
