package token

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// SPM tokenizes as llama.cpp does with a vocabulary of the model "llama". It
// is not changed by use and may be shared.
type SPM struct {
	stored
	ids   map[string]uint32
	bytes [256]uint32
}

const spaceMark = "\u2581" // ▁ stands for a space in tokens

// Encode implements [Encoder]. Special tokens that are written out are read.
// Bytes that are not UTF-8 become their byte tokens.
func (m *SPM) Encode(text string, addSpecial bool) []uint32 {
	return m.encode(text, addSpecial, m.marked)
}

// Plain implements [Encoder].
func (m *SPM) Plain(text string, addSpecial bool) []uint32 {
	return m.encode(text, addSpecial, m.userDefined())
}

func (m *SPM) encode(text string, addSpecial bool, marked []uint32) []uint32 {
	ids := []uint32{}
	if addSpecial && m.v.AddBOS {
		ids = append(ids, m.v.BOS)
	}
	prefix := m.v.SpacePrefix
	for _, f := range fragments(text, marked, m.v.Tokens) {
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

// bigram is a pair of neighbours that would make a token.
type bigram struct {
	score float32
	left  int
	size  int // bytes of both when it was queued
}

// better orders bigrams: the higher score first, then the one further left.
func better(b, c bigram) bool {
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

	q := queue[bigram]{before: better}
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
	for top, ok := q.pop(); ok; top, ok = q.pop() {
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
		if _, ok := m.Token(id); !ok {
			return "", fmt.Errorf("decode: position %d: got the id %d, want one below %d", i, id, len(m.v.Tokens))
		}
		text := ""
		if !skipSpecial || !m.IsSpecial(id) {
			text = m.piece(id)
		}
		if i == 0 && m.v.SpacePrefix {
			text = strings.TrimPrefix(text, " ")
		}
		out.WriteString(text)
	}
	return out.String(), nil
}

// piece is what llama.cpp writes for an id that has a token.
func (m *SPM) piece(id uint32) string {
	text := m.v.Tokens[id]
	switch m.v.Types[id] {
	case TypeNormal:
		return strings.ReplaceAll(text, spaceMark, " ")
	case TypeByte:
		b, _ := byteOf(text)
		return string([]byte{b})
	case TypeUnused:
		return ""
	}
	return text
}

// Piece implements [Encoder].
func (m *SPM) Piece(id uint32) ([]byte, bool) {
	if _, ok := m.Token(id); !ok {
		return nil, false
	}
	return []byte(m.piece(id)), true
}

// ID implements [Encoder].
func (m *SPM) ID(token string) (uint32, bool) {
	id, ok := m.ids[token]
	return id, ok
}

// written is a token as it stands in a text.
func (m *SPM) written(token string) string { return strings.ReplaceAll(token, spaceMark, " ") }
