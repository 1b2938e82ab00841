package token

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// The classes of the library's Digits and Punctuation are not those of its
// expressions: the first follows Unicode 17, the second Unicode 8.

// numbers has the characters that Unicode 17 added to Oniguruma's \p{N}.
var numbers = pattern{re: regexp.MustCompile(`[\p{N}` + newerCharacters["N"] + `\x{11DE0}-\x{11DE9}\x{16FF4}-\x{16FF6}]`)}

// laterPunctuation are the first and last of runs of characters that came to
// the punctuation of Unicode after version 8. Origin: the difference between the
// library (tokenizers 0.23.3) and Go 1.26 over all code points.
var laterPunctuation = [][2]rune{
	{0x61d, 0x61d}, {0x9fd, 0x9fd}, {0xa76, 0xa76}, {0xc77, 0xc77}, {0xc84, 0xc84}, {0x1b7d, 0x1b7e}, {0x2e43, 0x2e4f}, {0x2e52, 0x2e5d},
	{0x10ead, 0x10ead}, {0x10f55, 0x10f59}, {0x10f86, 0x10f89}, {0x1144b, 0x1144f}, {0x1145a, 0x1145b}, {0x1145d, 0x1145d}, {0x11660, 0x1166c},
	{0x116b9, 0x116b9}, {0x1183b, 0x1183b}, {0x11944, 0x11946}, {0x119e2, 0x119e2}, {0x11a3f, 0x11a46}, {0x11a9a, 0x11a9c}, {0x11a9e, 0x11aa2},
	{0x11b00, 0x11b09}, {0x11c41, 0x11c45}, {0x11c70, 0x11c71}, {0x11ef7, 0x11ef8}, {0x11f43, 0x11f4f}, {0x11fff, 0x11fff}, {0x12ff1, 0x12ff2},
	{0x16e97, 0x16e9a}, {0x16fe2, 0x16fe2}, {0x1e95e, 0x1e95f},
}

// punctuation is what is punctuation or a symbol in ASCII, or punctuation in Unicode 8.
var punctuation = sync.OnceValue(func() pattern {
	later := map[rune]bool{}
	for _, run := range laterPunctuation {
		for r := run[0]; r <= run[1]; r++ {
			later[r] = true
		}
	}
	set := []rune("$+<=>^`|~\u166D\U000111C9") // the last two left the class later
	for r := range rune(unicode.MaxRune) {
		if unicode.Is(unicode.P, r) && !later[r] {
			set = append(set, r)
		}
	}
	var class strings.Builder
	for _, r := range set {
		class.WriteString(regexp.QuoteMeta(string(r)))
	}
	return pattern{re: regexp.MustCompile("[" + strings.ReplaceAll(class.String(), "-", `\-`) + "]")}
})
