package token

import (
	"fmt"
	"slices"
	"strings"
)

// ByteLevel tokenizes as llama.cpp does with a vocabulary of the model "gpt2".
// It is not changed by use and may be shared.
//
// Unlike the tokenizers of the Hugging Face library, llama.cpp never normalizes
// a text: for vocabularies with NFC the two agree on composed texts only. A byte
// without a token is lost in both.
type ByteLevel struct {
	stored
	pre   llamacppPre
	model *bpe
}

// NewByteLevel makes a tokenizer of a vocabulary without scores, its merges in
// the form "a b", and the value of tokenizer.ggml.pre. It refuses pre-tokenizers
// that are not read here, tokens or merges that occur twice, merges of what are
// no tokens, and BOS or EOS beyond the vocabulary.
func NewByteLevel(v Vocabulary, merges []string, pre string) (*ByteLevel, error) {
	n := len(v.Tokens)
	m := &ByteLevel{stored: stored{v: v}}
	var known bool
	switch m.pre, known = llamacppPres[pre]; {
	case !known:
		return nil, unknownPre(pre)
	case n == 0 || n > maxTokens || len(merges) > maxMerges:
		return nil, fmt.Errorf("tokenizer.ggml.tokens: got %d tokens and %d merges, want 1 to %d and at most %d", n, len(merges), maxTokens, maxMerges)
	case len(v.Types) != n:
		return nil, fmt.Errorf("tokenizer.ggml.token_type: got %d types for %d tokens, want one of each", len(v.Types), n)
	case v.AddBOS && int64(v.BOS) >= int64(n) || v.AddEOS && int64(v.EOS) >= int64(n):
		return nil, fmt.Errorf("tokenizer.ggml.tokens: got the ids %d (BOS) and %d (EOS), want ids below %d", v.BOS, v.EOS, n)
	}
	for id, text := range v.Tokens {
		switch kind := v.Types[id]; {
		case text == "" || len(text) > maxTokenLen:
			return nil, fmt.Errorf("tokenizer.ggml.tokens: id %d: got a token of %d bytes, want 1 to %d", id, len(text), maxTokenLen)
		case kind < TypeNormal || kind > TypeByte:
			return nil, fmt.Errorf("tokenizer.ggml.token_type: id %d: got %d, want %d to %d", id, kind, TypeNormal, TypeByte)
		case kind == TypeUnknown || kind == TypeControl || kind == TypeUserDefined:
			m.marked = append(m.marked, uint32(id))
		}
	}
	var err error
	if m.model, err = byteLevelModel(v.Tokens, merges, m.pre); err != nil {
		return nil, err
	}
	longestFirst(m.marked, v.Tokens)
	for m.size = n; m.size > 0 && v.Types[m.size-1] == TypeUnused; m.size-- {
	}
	m.source = digest(v, append([]string{pre}, merges...))
	return m, nil
}

func unknownPre(pre string) error {
	return fmt.Errorf("tokenizer.ggml.pre: got the pre-tokenizer %q, want one of %s; compare with tokenizer.json instead", pre, strings.Join(PreTokenizers(), ", "))
}

// longestFirst orders tokens as llama.cpp looks for them.
func longestFirst(ids []uint32, tokens []string) {
	slices.SortStableFunc(ids, func(a, b uint32) int { return len(tokens[b]) - len(tokens[a]) })
}

// Encode implements [Encoder]. Special tokens that are written out are read.
func (m *ByteLevel) Encode(text string, addSpecial bool) []uint32 {
	return m.encode(text, addSpecial, m.marked)
}

// Plain implements [Encoder].
func (m *ByteLevel) Plain(text string, addSpecial bool) []uint32 {
	return m.encode(text, addSpecial, m.userDefined())
}

func (m *ByteLevel) encode(text string, addSpecial bool, marked []uint32) []uint32 {
	ids := []uint32{}
	if addSpecial && m.v.AddBOS {
		ids = append(ids, m.v.BOS)
	}
	for _, f := range fragments(text, marked, m.v.Tokens) {
		if f.token {
			ids = append(ids, f.id)
			continue
		}
		for _, word := range m.pre.words(f.text) {
			ids = m.model.encode(ids, word.text)
		}
	}
	ids = slices.DeleteFunc(ids, func(id uint32) bool { return id == noToken })
	if addSpecial && m.v.AddEOS {
		ids = append(ids, m.v.EOS)
	}
	return ids
}

// Decode implements [Encoder]: what llama.cpp writes for each token, one after
// the other. It need not be UTF-8.
func (m *ByteLevel) Decode(ids []uint32, skipSpecial bool) (string, error) {
	var out strings.Builder
	for i, id := range ids {
		text, ok := m.Piece(id)
		if !ok {
			return "", fmt.Errorf("decode: position %d: got the id %d, want one below %d", i, id, len(m.v.Tokens))
		}
		if !skipSpecial || !m.IsSpecial(id) {
			out.Write(text)
		}
	}
	return out.String(), nil
}

// Piece implements [Encoder].
func (m *ByteLevel) Piece(id uint32) ([]byte, bool) {
	text, ok := m.Token(id)
	if !ok {
		return nil, false
	}
	switch m.v.Types[id] {
	case TypeNormal:
		return []byte(fromByteChars(text)), true
	case TypeUnused, TypeByte:
		return []byte{}, true
	}
	return []byte(text), true
}

// ID implements [Encoder].
func (m *ByteLevel) ID(token string) (uint32, bool) {
	id, ok := m.model.ids[token]
	return id, ok
}

// written is a token as it stands in a text.
func (m *ByteLevel) written(token string) string { return fromByteChars(token) }
