package token

import (
	"fmt"
	"unicode/utf8"
)

// bpe is a byte-pair encoding model (Sennrich et al. 2016): characters joined
// pair by pair, the pair of the lowest rank first.
type bpe struct {
	ids          map[string]uint32
	merges       map[[2]uint32]merge
	unknown      int64 // the id for unknown characters, -1: they are dropped
	fuseUnknown  bool
	bytes        *[256]uint32 // ids of <0x00> to <0xFF> where byte fallback is on and all exist that a character needs
	hasByte      [256]bool
	ignoreMerges bool // a piece that is itself a token is that token
}

type merge struct{ rank, id uint32 }

// symbol is one element of the chain that merges shorten; gone ones have size 0.
type symbol struct {
	id         uint32
	size       int // bytes
	prev, next int // -1: none
}

type candidate struct {
	rank, id uint32
	at       int
}

// sooner orders candidates: the lower rank first, then the one further left.
func sooner(c, d candidate) bool {
	return c.rank < d.rank || c.rank == d.rank && c.at < d.at
}

func byteToken(b byte) string { return fmt.Sprintf("<0x%02X>", b) }

// encode appends the ids of one piece.
func (m *bpe) encode(dst []uint32, s string) []uint32 {
	if m.ignoreMerges {
		if id, ok := m.ids[s]; ok {
			return append(dst, id)
		}
	}
	chain := m.symbols(s)
	q := queue[candidate]{before: sooner}
	try := func(left int) {
		if left < 0 || chain[left].next < 0 {
			return
		}
		if to, ok := m.merges[[2]uint32{chain[left].id, chain[chain[left].next].id}]; ok {
			q.push(candidate{to.rank, to.id, left})
		}
	}
	for i := range chain {
		try(i)
	}
	for top, ok := q.pop(); ok; top, ok = q.pop() {
		left := &chain[top.at]
		if left.size == 0 || left.next < 0 {
			continue
		}
		right := &chain[left.next]
		// the pair at this place may have changed since the candidate was queued
		if to, ok := m.merges[[2]uint32{left.id, right.id}]; !ok || to.id != top.id {
			continue
		}
		left.id, left.size, left.next = top.id, left.size+right.size, right.next
		right.size = 0
		if left.next >= 0 {
			chain[left.next].prev = top.at
		}
		try(left.prev)
		try(top.at)
	}
	for _, s := range chain {
		if s.size > 0 {
			dst = append(dst, s.id)
		}
	}
	return dst
}

// symbols starts the chain: a character's token, else its bytes, else unknown.
func (m *bpe) symbols(s string) []symbol {
	chain := make([]symbol, 0, len(s))
	add := func(id uint32, size int) {
		i := len(chain)
		if i > 0 {
			chain[i-1].next = i
		}
		chain = append(chain, symbol{id, size, i - 1, -1})
	}
	pending := 0 // bytes of unknown characters that are not in the chain yet
	for i := 0; i < len(s); {
		_, n := utf8.DecodeRuneInString(s[i:])
		char := s[i : i+n]
		i += n
		if id, ok := m.ids[char]; ok {
			if pending > 0 {
				add(uint32(m.unknown), pending)
				pending = 0
			}
			add(id, n)
			continue
		}
		if m.hasBytes(char) {
			// an unknown character before stays pending here, as in the library
			for _, b := range []byte(char) {
				add(m.bytes[b], 1)
			}
			continue
		}
		if m.unknown < 0 {
			continue
		}
		if pending > 0 && !m.fuseUnknown {
			add(uint32(m.unknown), pending)
			pending = 0
		}
		pending += n
	}
	if pending > 0 {
		add(uint32(m.unknown), pending)
	}
	return chain
}

func (m *bpe) hasBytes(char string) bool {
	if m.bytes == nil {
		return false
	}
	for _, b := range []byte(char) {
		if !m.hasByte[b] {
			return false
		}
	}
	return true
}
