package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// Scores that the converter gives to ids without a SentencePiece score.
const (
	unusedScore = -10000
	addedScore  = -1000
)

// vocabulary is what GGUF holds of a tokenizer: one entry per id. Scores are
// not there for byte-level vocabularies.
type vocabulary struct {
	tokens []string
	scores []float32
	kinds  []int32
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

// kvs lists the keys of a SentencePiece vocabulary.
func (v *vocabulary) kvs() []gguf.KV {
	return []gguf.KV{
		{Key: keyModel, Value: gguf.String("llama")},
		{Key: keyPre, Value: gguf.String("default")},
		{Key: keyTokens, Value: gguf.Strings(v.tokens)},
		{Key: keyScores, Value: gguf.Float32s(v.scores)},
		{Key: keyTypes, Value: gguf.Int32s(v.kinds)},
	}
}

// pieceVocabulary is a tokenizer.model: its pieces, over them the tokens of
// added_tokens.json and of added_tokens_decoder, and [PADi] where there is neither.
func pieceVocabulary(s vocabularySource) ([]gguf.KV, error) {
	v, err := s.pieces()
	if err != nil {
		return nil, err
	}
	for _, key := range sortedKeys(s.added) {
		added := s.added[key]
		id, err := s.addedID(key)
		if err != nil {
			return nil, err
		}
		v.set(id, added.text(), added.kind())
	}
	return s.finish(v)
}

// phi3PieceVocabulary differs: tokens that only look special are not made so,
// and tokenizer.json's added tokens come last.
func phi3PieceVocabulary(s vocabularySource) ([]gguf.KV, error) {
	v, err := s.pieces()
	if err != nil {
		return nil, err
	}
	set := func(where string, id int64, t addedToken) error {
		if id < 0 || id >= s.size {
			return fmt.Errorf("%s: got the id %d for %q, want one below vocab_size %d; the converter stops there", where, id, t.Content, s.size)
		}
		kind := int32(TokenUserDefined)
		if t.Special {
			kind = TokenControl
		}
		v.set(id, t.Content, kind)
		return nil
	}
	for _, key := range sortedKeys(s.added) {
		id, err := s.addedID(key)
		if err != nil {
			return nil, err
		}
		if err := set("tokenizer_config.json: added_tokens_decoder", id, s.added[key]); err != nil {
			return nil, err
		}
	}
	for _, t := range s.tokenizer.Added {
		if err := set("tokenizer.json: added_tokens", t.ID, t); err != nil {
			return nil, err
		}
	}
	return s.finish(v)
}

func (s *vocabularySource) finish(v vocabulary) ([]gguf.KV, error) {
	special, err := s.specialKVs(int64(len(v.tokens)))
	return append(v.kvs(), special...), err
}

func (s *vocabularySource) addedID(key string) (int64, error) {
	id, err := strconv.ParseInt(key, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("tokenizer_config.json: added_tokens_decoder: key: got %q, want a token id", key)
	}
	return id, nil
}

// pieces fills every id below vocab_size with the pieces of tokenizer.model and
// the tokens of added_tokens.json. Ids beyond are left out, as the converter does.
func (s *vocabularySource) pieces() (vocabulary, error) {
	model, err := readFile(s.fsys, pieceFile, maxJSON)
	if err != nil {
		return vocabulary{}, err
	}
	pieces, err := parsePieces(model)
	if err != nil {
		return vocabulary{}, err
	}
	var v vocabulary
	for i := range s.size {
		if i >= int64(len(pieces)) {
			v.add(padding(i), unusedScore, TokenUnused)
			continue
		}
		kind := pieces[i].kind
		if kind == TokenUserDefined { // the converter does not ask for this type
			kind = TokenNormal
		}
		v.add(pieces[i].text, pieces[i].score, kind)
	}
	plain := map[string]int64{}
	if _, err := readJSON(s.fsys, "added_tokens.json", &plain); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return vocabulary{}, err
	}
	for _, text := range sortedKeys(plain) {
		v.set(plain[text], text, TokenUserDefined)
	}
	return v, nil
}

func padding(id int64) string { return "[PAD" + strconv.FormatInt(id, 10) + "]" }

// kind and text are what GGUF has for an added token.
func (t addedToken) kind() int32 {
	if t.Special || looksSpecial(t.Content) {
		return TokenControl
	}
	return TokenUserDefined
}

func (t addedToken) text() string {
	if t.kind() == TokenControl {
		return t.Content
	}
	return strings.ReplaceAll(t.Content, "▁", " ")
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
