package token

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weighmaster/weighmaster/kernels"
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

// SPM tokenizes as llama.cpp does with a vocabulary of the model "llama". It
// is not changed by use and may be shared.
type SPM struct {
	v      Vocabulary
	ids    map[string]uint32
	bytes  [256]uint32
	marked []uint32 // control, unknown and user-defined tokens, longest first
	size   int
	source kernels.Input
}

const spaceMark = "\u2581" // ▁ stands for a space in tokens

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
	m := &SPM{v: v, ids: make(map[string]uint32, n)}
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
	slices.SortStableFunc(m.marked, func(a, b uint32) int { return len(v.Tokens[b]) - len(v.Tokens[a]) })
	for m.size = n; m.size > 0 && v.Types[m.size-1] == TypeUnused; m.size-- {
	}
	m.source = m.digest()
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

// Encode implements [Encoder]. Special tokens that are written out are read.
// Bytes that are not UTF-8 become their byte tokens.
func (m *SPM) Encode(text string, addSpecial bool) []uint32 {
	ids := []uint32{}
	if addSpecial && m.v.AddBOS {
		ids = append(ids, m.v.BOS)
	}
	prefix := m.v.SpacePrefix
	for _, f := range m.fragments(text) {
		if f.token {
			ids = append(ids, f.id)
			prefix = m.v.SpacePrefix
			continue
		}
		if prefix {
			f.text = " " + f.text
		}
		prefix = false
		ids = m.encodeText(ids, strings.ReplaceAll(f.text, " ", spaceMark))
	}
	if addSpecial && m.v.AddEOS {
		ids = append(ids, m.v.EOS)
	}
	return ids
}

// fragments cuts the text at the longest special token wherever it stands,
// then what is left at the next.
func (m *SPM) fragments(text string) []fragment {
	var out []fragment
	if text != "" {
		out = []fragment{{text: text}}
	}
	for _, id := range m.marked {
		token := m.v.Tokens[id]
		if !strings.Contains(text, token) {
			continue
		}
		var cut []fragment
		for _, f := range out {
			for !f.token {
				before, after, found := strings.Cut(f.text, token)
				if !found {
					break
				}
				if before != "" {
					cut = append(cut, fragment{text: before})
				}
				cut = append(cut, fragment{token: true, id: id})
				f.text = after
			}
			if f.token || f.text != "" {
				cut = append(cut, f)
			}
		}
		out = cut
	}
	return out
}

// bigram is a pair of neighbours that would make a token.
type bigram struct {
	score float32
	left  int
	size  int // bytes of both when it was queued
}

func (b bigram) before(c bigram) bool {
	return b.score > c.score || b.score == c.score && b.left < c.left
}

// encodeText joins the neighbours of the best score until none are left that make a token.
func (m *SPM) encodeText(dst []uint32, s string) []uint32 {
	type link struct{ from, size, prev, next int }
	var chain []link
	for at := 0; at < len(s); {
		n := min(charLen(s[at]), len(s)-at)
		chain = append(chain, link{at, n, len(chain) - 1, len(chain) + 1})
		at += n
	}
	if len(chain) == 0 {
		return dst
	}
	chain[len(chain)-1].next = -1
	text := func(l link) string { return s[l.from : l.from+l.size] }

	var q queue[bigram]
	try := func(left int) {
		if left < 0 || chain[left].next < 0 {
			return
		}
		both := chain[left]
		both.size += chain[both.next].size
		if id, ok := m.ids[text(both)]; ok {
			q.push(bigram{m.v.Scores[id], left, both.size})
		}
	}
	for i := range chain {
		try(i)
	}
	for len(q) > 0 {
		top := q.pop()
		left := &chain[top.left]
		if left.size == 0 || left.next < 0 || left.size+chain[left.next].size != top.size {
			continue // one of the two has been joined to something else since
		}
		right := &chain[left.next]
		left.size, left.next = top.size, right.next
		right.size = 0
		if left.next >= 0 {
			chain[left.next].prev = top.left
		}
		try(left.prev)
		try(top.left)
	}
	for i := 0; i >= 0; i = chain[i].next {
		piece := text(chain[i])
		if id, ok := m.ids[piece]; ok {
			dst = append(dst, id)
			continue
		}
		for _, b := range []byte(piece) {
			dst = append(dst, m.bytes[b])
		}
	}
	return dst
}

// charLen is the length that the first byte of a character announces, whether it keeps it or not.
func charLen(b byte) int {
	switch {
	case b < 0xC0:
		return 1
	case b < 0xE0:
		return 2
	case b < 0xF0:
		return 3
	}
	return utf8.UTFMax
}

// Decode implements [Encoder]. Byte tokens give their bytes as they are, which
// need not be UTF-8. With a space prefix, one space at the start is dropped.
func (m *SPM) Decode(ids []uint32, skipSpecial bool) (string, error) {
	var out strings.Builder
	for i, id := range ids {
		text, ok := m.Token(id)
		if !ok {
			return "", fmt.Errorf("decode: position %d: got the id %d, want one below %d", i, id, len(m.v.Tokens))
		}
		switch m.v.Types[id] {
		case TypeControl, TypeUnknown:
			if skipSpecial {
				text = ""
			}
		case TypeNormal:
			text = strings.ReplaceAll(text, spaceMark, " ")
		case TypeByte:
			b, _ := byteOf(text)
			text = string([]byte{b})
		case TypeUnused:
			text = ""
		}
		if i == 0 && m.v.SpacePrefix {
			text = strings.TrimPrefix(text, " ")
		}
		out.WriteString(text)
	}
	return out.String(), nil
}

// Size implements [Encoder]: unused ids at the end, which pad a vocabulary, do not count.
func (m *SPM) Size() int { return m.size }

// Token implements [Encoder].
func (m *SPM) Token(id uint32) (string, bool) {
	if int64(id) >= int64(len(m.v.Tokens)) {
		return "", false
	}
	return m.v.Tokens[id], true
}

// ID implements [Encoder].
func (m *SPM) ID(token string) (uint32, bool) {
	id, ok := m.ids[token]
	return id, ok
}

// IsSpecial implements [Encoder].
func (m *SPM) IsSpecial(id uint32) bool {
	return int64(id) < int64(len(m.v.Types)) && (m.v.Types[id] == TypeControl || m.v.Types[id] == TypeUnknown)
}

// Source names the vocabulary by its content.
func (m *SPM) Source() kernels.Input { return m.source }
