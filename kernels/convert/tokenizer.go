package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"sort"
	"strconv"
	"strings"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// Scores that the converter gives to ids without a SentencePiece score.
const (
	unusedScore = -10000
	addedScore  = -1000
)

// vocabulary is what GGUF holds of a tokenizer: one entry per id.
type vocabulary struct {
	tokens []string
	scores []float32
	kinds  []int32
}

// addedToken is one entry of added_tokens_decoder or of tokenizer.json's added_tokens.
type addedToken struct {
	ID      int64  `json:"id"`
	Content string `json:"content"`
	Special bool   `json:"special"`
}

// tokenizerConfig is tokenizer_config.json as far as GGUF depends on it.
type tokenizerConfig struct {
	AddPrefixSpace *bool                 `json:"add_prefix_space"`
	Added          map[string]addedToken `json:"added_tokens_decoder"`
	all            map[string]any
}

// tokenizerKVs lists the tokenizer's keys in the converter's order.
func (c *Config) tokenizerKVs(fsys fs.FS) ([]gguf.KV, error) {
	model, err := readFile(fsys, "tokenizer.model", maxJSON)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; only SentencePiece vocabularies are converted here, not a tokenizer.json alone", err)
	}
	if err != nil {
		return nil, err
	}
	pieces, err := parsePieces(model)
	if err != nil {
		return nil, err
	}
	config, err := readTokenizerConfig(fsys)
	if err != nil {
		return nil, err
	}
	vocab, err := c.vocabulary(fsys, pieces, config)
	if err != nil {
		return nil, err
	}
	var kvs []gguf.KV
	if config.AddPrefixSpace != nil {
		kvs = append(kvs, gguf.KV{Key: "tokenizer.ggml.add_space_prefix", Value: gguf.Bool(*config.AddPrefixSpace)})
	}
	kvs = append(kvs,
		gguf.KV{Key: "tokenizer.ggml.model", Value: gguf.String("llama")},
		gguf.KV{Key: "tokenizer.ggml.pre", Value: gguf.String("default")},
		gguf.KV{Key: "tokenizer.ggml.tokens", Value: gguf.Strings(vocab.tokens)},
		gguf.KV{Key: "tokenizer.ggml.scores", Value: gguf.Float32s(vocab.scores)},
		gguf.KV{Key: "tokenizer.ggml.token_type", Value: gguf.Int32s(vocab.kinds)},
	)
	special, err := c.specialKVs(fsys, config)
	return append(kvs, special...), err
}

func readTokenizerConfig(fsys fs.FS) (tokenizerConfig, error) {
	var config tokenizerConfig
	if _, err := readJSON(fsys, "tokenizer_config.json", &config); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return tokenizerConfig{}, err
	} else if err != nil {
		return tokenizerConfig{}, nil
	}
	_, err := readJSON(fsys, "tokenizer_config.json", &config.all)
	return config, err
}

// vocabulary fills every id below config's vocab_size: the SentencePiece
// pieces, over them the added tokens, and [PADi] where there is neither. Ids
// beyond vocab_size are left out, as the converter does.
func (c *Config) vocabulary(fsys fs.FS, pieces []piece, config tokenizerConfig) (vocabulary, error) {
	if c.VocabSize > maxPieces {
		return vocabulary{}, fmt.Errorf("config.json: vocab_size: got %d, want at most %d", c.VocabSize, maxPieces)
	}
	var v vocabulary
	for i := int64(0); i < c.VocabSize; i++ {
		if i >= int64(len(pieces)) {
			v.add("[PAD"+strconv.FormatInt(i, 10)+"]", unusedScore, TokenUnused)
			continue
		}
		kind := pieces[i].kind
		if kind == TokenUserDefined { // the converter does not ask for this type
			kind = TokenNormal
		}
		v.add(pieces[i].text, pieces[i].score, kind)
	}
	plain := map[string]int64{}
	if _, err := readJSON(fsys, "added_tokens.json", &plain); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return vocabulary{}, err
	}
	for _, text := range sortedKeys(plain) {
		v.set(plain[text], text, TokenUserDefined)
	}
	for _, key := range sortedKeys(config.Added) {
		added := config.Added[key]
		id, err := strconv.ParseInt(key, 10, 64)
		if err != nil {
			return vocabulary{}, fmt.Errorf("tokenizer_config.json: added_tokens_decoder: key: got %q, want a token id", key)
		}
		if added.Special || looksSpecial(added.Content) {
			v.set(id, added.Content, TokenControl)
		} else {
			v.set(id, strings.ReplaceAll(added.Content, "▁", " "), TokenUserDefined)
		}
	}
	return v, nil
}

func (v *vocabulary) add(text string, score float32, kind int32) {
	v.tokens, v.scores, v.kinds = append(v.tokens, text), append(v.scores, score), append(v.kinds, kind)
}

// set replaces one id; an id beyond the vocabulary is left out.
func (v *vocabulary) set(id int64, text string, kind int32) {
	if id >= 0 && id < int64(len(v.tokens)) {
		v.tokens[id], v.scores[id], v.kinds[id] = text, addedScore, kind
	}
}

// looksSpecial tells the added tokens that the converter takes for control
// tokens although they are not marked so.
func looksSpecial(text string) bool {
	switch text {
	case "<pad>", "<mask>", "<2mass>", "[@BOS@]":
		return true
	}
	for _, form := range [][2]string{{"<|", "|>"}, {"<｜", "｜>"}, {"<unused", ">"}} {
		if strings.HasPrefix(text, form[0]) && strings.HasSuffix(text, form[1]) {
			return true
		}
	}
	return false
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
