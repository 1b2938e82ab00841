package token

import (
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is a token that is found in the text before anything else.
type addedToken struct {
	id                                 uint32
	content                            string
	special, lstrip, rstrip, wholeWord bool
	normalized                         bool // found in the normalized text
}

// loadAdded reads the added tokens, in file order, and gives each its id as
// the library does: the vocabulary's, else the next free one. The id in the
// file has to be the same.
func loadAdded(n node, ids map[string]uint32, next uint32, normalize normalizer) ([]addedToken, error) {
	if n.absent() {
		return nil, nil
	}
	members, err := n.array(maxAdded)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	added := make([]addedToken, 0, len(members))
	for _, member := range members {
		f, err := member.object("id", "content", "single_word", "lstrip", "rstrip", "normalized", "special")
		if err != nil {
			return nil, err
		}
		var t addedToken
		if t.id, err = scalar[uint32](f["id"]); err != nil {
			return nil, err
		}
		if t.content, err = short(f["content"], maxTokenLen); err != nil {
			return nil, err
		}
		for name, to := range map[string]*bool{"single_word": &t.wholeWord, "lstrip": &t.lstrip, "rstrip": &t.rstrip, "normalized": &t.normalized, "special": &t.special} {
			if *to, err = scalar[bool](f[name]); err != nil {
				return nil, err
			}
		}
		want, known := ids[t.content]
		if !known {
			want = next
			next++
		}
		switch {
		case t.content == "":
			return nil, member.errorf("got an empty content, want a token")
		case seen[t.content]:
			return nil, member.errorf("got the token %q twice, want it once", t.content)
		case t.id != want:
			return nil, member.errorf("got the id %d for %q, want %d, which the vocabulary and the order of the added tokens give", t.id, t.content, want)
		}
		if t.normalized && normalize != nil && normalize(t.content) != t.content {
			return nil, member.errorf("got the token %q, which is sought in normalized text, where it is %q; versions of the library decode it differently, so it is not read here", t.content, normalize(t.content))
		}
		seen[t.content] = true
		added = append(added, t)
	}
	return added, nil
}

// matcher finds added tokens: the leftmost, and of these the longest.
type matcher struct {
	tokens  map[string]addedToken
	lengths map[byte][]int // of the tokens that start with a byte, longest first
}

func newMatcher(added []addedToken, normalized bool) *matcher {
	m := &matcher{tokens: map[string]addedToken{}, lengths: map[byte][]int{}}
	for _, t := range added {
		if t.normalized != normalized {
			continue
		}
		m.tokens[t.content] = t
		m.lengths[t.content[0]] = append(m.lengths[t.content[0]], len(t.content))
	}
	for _, lengths := range m.lengths {
		sort.Sort(sort.Reverse(sort.IntSlice(lengths)))
	}
	return m
}

// fragment is a part of the text: an added token, or text that is not one.
type fragment struct {
	text  string
	token bool
	id    uint32
	first bool // it begins where the text begins
}

// split cuts a text at its added tokens; plain leaves special ones what they are
// written as, with all that they cover, as the library does.
func (m *matcher) split(s string, first, plain bool) []fragment {
	var out []fragment
	done := 0
	for at := 0; at < len(s); {
		n := m.longest(s[at:])
		if n == 0 {
			at++
			continue
		}
		t, from, to := m.tokens[s[at:at+n]], at, at+n
		at = to
		if plain && t.special {
			continue
		}
		if t.wholeWord && (endsInWord(s[:from]) || startsWithWord(s[to:])) {
			continue
		}
		if t.lstrip {
			from = max(done, len(strings.TrimRightFunc(s[:from], isSpace)))
		}
		if t.rstrip {
			to = len(s) - len(strings.TrimLeftFunc(s[to:], isSpace))
		}
		if from > done {
			out = append(out, fragment{text: s[done:from], first: first && done == 0})
		}
		out = append(out, fragment{token: true, id: t.id})
		done = to
	}
	if done < len(s) {
		out = append(out, fragment{text: s[done:], first: first && done == 0})
	}
	return out
}

// longest gives the length of the longest token that s starts with, 0 for none.
func (m *matcher) longest(s string) int {
	for _, n := range m.lengths[s[0]] {
		if n <= len(s) {
			if _, ok := m.tokens[s[:n]]; ok {
				return n
			}
		}
	}
	return 0
}

func isSpace(r rune) bool { return unicode.Is(unicode.White_Space, r) }

// isWord follows Unicode's regular expressions (UTS 18, annex C): \w.
func isWord(r rune) bool {
	return unicode.In(r, unicode.L, unicode.Nl, unicode.Other_Alphabetic, unicode.M, unicode.Nd, unicode.Pc, unicode.Join_Control)
}

func endsInWord(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && isWord(r)
}

func startsWithWord(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && isWord(r)
}
