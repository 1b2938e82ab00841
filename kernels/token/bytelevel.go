package token

import (
	"strings"
	"unicode/utf8"
)

// Byte-level vocabularies write every byte as one printable character: bytes
// that are printable in Latin-1 as themselves, the other 68 as the characters
// from U+0100 on (GPT-2's encoder, Radford et al. 2019).
var (
	byteChars = func() (chars [256]rune) {
		next := rune(0x100)
		for b := range chars {
			if b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE {
				chars[b] = rune(b)
				continue
			}
			chars[b] = next
			next++
		}
		return chars
	}()
	charBytes = func() map[rune]byte {
		m := map[rune]byte{}
		for b, r := range byteChars {
			m[r] = byte(b)
		}
		return m
	}()
)

// toByteChars writes the bytes of a text as characters.
func toByteChars(s string) string {
	var out strings.Builder
	for i := range len(s) {
		out.WriteRune(byteChars[s[i]])
	}
	return out.String()
}

// fromByteChars gives the bytes that a token's characters stand for; a token
// with any other character, such as an added one, stands for itself.
func fromByteChars(token string) string {
	out := make([]byte, 0, len(token))
	for _, r := range token {
		b, ok := charBytes[r]
		if !ok {
			return token
		}
		out = append(out, b)
	}
	return string(out)
}

// joinByteChars is the ByteLevel decoder: all tokens together are one text.
func joinByteChars(tokens []string) []string {
	var out strings.Builder
	for _, t := range tokens {
		out.WriteString(fromByteChars(t))
	}
	return []string{lossyUTF8(out.String())}
}

// lossyUTF8 puts one U+FFFD in place of every maximal part of a character that
// is cut off, and of every other byte that is not UTF-8 (Unicode, section 3.9,
// "U+FFFD Substitution of Maximal Subparts").
func lossyUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var out strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			n = cutOff(s)
		}
		out.WriteRune(r)
		s = s[n:]
	}
	return out.String()
}

// cutOff gives the length of the longest start of s that more bytes could
// complete to a character, at least 1.
func cutOff(s string) int {
	for n := min(3, len(s)); n > 1; n-- {
		if !utf8.FullRuneInString(s[:n]) {
			return n
		}
	}
	return 1
}

// loadByteLevel reads a ByteLevel pre-tokenizer. What it says on offsets does not change ids.
func loadByteLevel(n node) (pretokenizer, error) {
	f, err := n.object("type", "add_prefix_space", "trim_offsets", "use_regex")
	if err != nil {
		return nil, err
	}
	flags := map[string]bool{"use_regex": true} // the library's defaults
	for _, name := range []string{"add_prefix_space", "trim_offsets", "use_regex"} {
		if f[name].absent() && name != "add_prefix_space" {
			continue
		}
		if flags[name], err = scalar[bool](f[name]); err != nil {
			return nil, err
		}
	}
	return func(p piece) []piece {
		if flags["add_prefix_space"] && !strings.HasPrefix(p.text, " ") {
			p.text = " " + p.text
		}
		pieces := []piece{p}
		if flags["use_regex"] {
			pieces = cut(p, gpt2Words, behaviours["Isolated"], false)
		}
		for i := range pieces {
			pieces[i].text = toByteChars(pieces[i].text)
		}
		return pieces
	}, nil
}
