package token

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// The token types of GGUF (tokenizer.ggml.token_type).
const (
	TypeNormal      = 1
	TypeUnknown     = 2
	TypeControl     = 3
	TypeUserDefined = 4
	TypeUnused      = 5
	TypeByte        = 6
)

// Vocabulary is a SentencePiece vocabulary as GGUF states it: one token, score
// and type per id.
type Vocabulary struct {
	Tokens []string
	Scores []float32
	Types  []int32
	// SpacePrefix puts a space before text at the start and after special tokens.
	SpacePrefix    bool
	AddBOS, AddEOS bool
	BOS, EOS       uint32
}

// overridden are texts whose type llama.cpp sets by itself where the file says
// another; which texts depends on its version, so a file must not rely on it.
var overridden = []string{
	"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
	"<end_of_utterance>", "<eos>", "</s>", "<|eom_id|>", "<|return|>", "<|call|>", "<|calls|>", "<|flush|>", "<turn|>", "<|tool_response>",
	"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>",
	"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<fim_pad>", "<PRE>", "<SUF>", "<MID>", "▁<PRE>", "▁<SUF>", "▁<MID>",
}

// NewSPM refuses vocabularies that llama.cpp would not read or would change:
// empty tokens, tokens that occur twice, scores that are not numbers, bytes without a
// token, BOS or EOS beyond the vocabulary, and control tokens typed otherwise.
func NewSPM(v Vocabulary) (*SPM, error) {
	n := len(v.Tokens)
	if n == 0 || n > maxTokens {
		return nil, fmt.Errorf("vocabulary: got %d tokens, want 1 to %d", n, maxTokens)
	}
	if len(v.Scores) != n || len(v.Types) != n {
		return nil, fmt.Errorf("vocabulary: got %d scores and %d types for %d tokens, want one of each", len(v.Scores), len(v.Types), n)
	}
	m := &SPM{stored: stored{v: v}, ids: make(map[string]uint32, n)}
	for i := range n {
		if err := m.add(uint32(i)); err != nil {
			return nil, fmt.Errorf("vocabulary: id %d: %w", i, err)
		}
	}
	for b := range m.bytes {
		id, ok := m.ids[byteToken(byte(b))]
		if !ok {
			id, ok = m.ids[string([]byte{byte(b)})]
		}
		if !ok {
			return nil, fmt.Errorf("vocabulary: got no token %s, want one for every byte: a character without a token becomes its bytes", byteToken(byte(b)))
		}
		m.bytes[b] = id
	}
	if (v.AddBOS && int64(v.BOS) >= int64(n)) || (v.AddEOS && int64(v.EOS) >= int64(n)) {
		return nil, fmt.Errorf("vocabulary: got the ids %d (BOS) and %d (EOS), want ids below %d", v.BOS, v.EOS, n)
	}
	longestFirst(m.marked, v.Tokens)
	for m.size = n; m.size > 0 && v.Types[m.size-1] == TypeUnused; m.size-- {
	}
	m.source = digest(v, nil)
	return m, nil
}

func (m *SPM) add(id uint32) error {
	text, kind := m.v.Tokens[id], m.v.Types[id]
	if text == "" || len(text) > maxTokenLen {
		return fmt.Errorf("got a token of %d bytes, want 1 to %d", len(text), maxTokenLen)
	}
	if other, twice := m.ids[text]; twice {
		return fmt.Errorf("got the token %q, which id %d is already", text, other)
	}
	if math.IsNaN(float64(m.v.Scores[id])) {
		return errors.New("got a score that is not a number")
	}
	switch kind {
	case TypeUnknown, TypeControl, TypeUserDefined:
		m.marked = append(m.marked, id)
	case TypeByte:
		if _, ok := byteOf(text); !ok {
			return fmt.Errorf("got the byte token %q, want <0x00> to <0xFF>", text)
		}
	case TypeNormal, TypeUnused:
	default:
		return fmt.Errorf("got the type %d, want %d to %d", kind, TypeNormal, TypeByte)
	}
	if kind != TypeControl && slices.Contains(overridden, text) {
		return fmt.Errorf("got the type %d for %q, want %d (control): llama.cpp overrides it", kind, text, TypeControl)
	}
	m.ids[text] = id
	return nil
}
