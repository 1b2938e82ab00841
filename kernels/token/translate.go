package token

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// In Oniguruma these are classes of Unicode, in RE2 of ASCII.
const spaceClass = `\t-\r\x{85}\p{Z}`

// whiteSpace is the one look-ahead that is read, see [pattern].
const whiteSpace = `\s+(?!\S)|\s+`

// greedy replaces the possessive repeats of GPT-4's expression. No character of
// the repeated class can start what follows, so giving back would never match.
var greedy = strings.NewReplacer(
	`[^\r\n\p{L}\p{N}]?+\p{L}+`, `[^\r\n\p{L}\p{N}]?\p{L}+`,
	`[^\s\p{L}\p{N}]++[\r\n]*`, `[^\s\p{L}\p{N}]+[\r\n]*`,
)

// contractions are groups in which the case of letters does not matter; both
// engines fold ASCII letters alike there (ſ too is an s).
var contractions = regexp.MustCompile(`^\(\?i:('[a-z]+(\|'[a-z]+)*|\[sdmt\]\|ll\|ve\|re)\)`)

// translate writes an Oniguruma expression for RE2, or tells what it refuses.
//
// The library runs expressions with Oniguruma, this package with RE2. Only
// what means the same in both is accepted: other look-around, back-references,
// anchors, other flags, possessive repeats, set operations and \w are
// refused by name.
func translate(text string) (re string, ahead bool, refused string) {
	if before, after, found := strings.Cut(greedy.Replace(text), whiteSpace); found && alternative(before, after) {
		first, _, refused := translate(strings.TrimSuffix(before, "|"))
		if refused != "" {
			return "", false, refused
		}
		second, _, refused := translate(strings.TrimPrefix(after, "|"))
		if before != "" {
			first += "|"
		}
		if after != "" {
			second = "|" + second
		}
		return first + "([" + spaceClass + "]+)" + second, true, refused
	}
	expr := []rune(greedy.Replace(text))
	var out strings.Builder
	class := false
	for i := 0; i < len(expr); i++ {
		c := expr[i]
		next := func(k int) rune {
			if i+k < len(expr) {
				return expr[i+k]
			}
			return -1
		}
		switch {
		case c == '\\':
			text, n, bad := translateEscape(expr[i:], class)
			if bad != "" {
				return "", false, bad
			}
			out.WriteString(text)
			i += n - 1
			continue
		case class && (c == '[' || c == '&' && next(1) == '&'):
			return "", false, "a set operation"
		case class && c == ']':
			class = false
		case class:
		case c == '[':
			class = true
			if next(1) == '^' {
				out.WriteRune(c)
				i++
				c = '^'
			}
			if next(1) == ']' {
				return "", false, "a set that starts with ]"
			}
		case c == '(':
			if next(1) != '?' {
				out.WriteString("(?:") // what it captures is not used
				continue
			}
			if n := len(contractions.FindString(string(expr[i:]))); n > 0 {
				out.WriteString(string(expr[i : i+n]))
				i += n - 1
				continue
			}
			if next(2) != ':' {
				return "", false, "a look-around, a flag or a named group"
			}
		case c == '^' || c == '$':
			return "", false, "an anchor"
		case c == '{':
			n := repeat(expr[i:])
			if n == 0 {
				return "", false, "a { that is no repeat"
			}
			out.WriteString(string(expr[i : i+n]))
			i += n - 1
			if next(1) == '?' || next(1) == '+' {
				return "", false, "a repeat after a repeat"
			}
			continue
		case (c == '*' || c == '+' || c == '?') && next(1) == '+':
			return "", false, "a possessive repeat"
		}
		out.WriteRune(c)
	}
	return out.String(), false, ""
}

// alternative tells whether what stands between two parts of an expression is a
// whole alternative of it, outside of groups and sets.
func alternative(before, after string) bool {
	plain := strings.NewReplacer(`\\`, "", `\(`, "", `\)`, "", `\[`, "", `\]`, "", `\|`, "").Replace(before)
	return strings.Count(plain, "(") == strings.Count(plain, ")") && strings.Count(plain, "[") == strings.Count(plain, "]") &&
		(before == "" || strings.HasSuffix(plain, "|")) && (after == "" || after[0] == '|') && !strings.Contains(after, whiteSpace)
}

// translateEscape reads one escape and gives its form for RE2 and its length in characters.
func translateEscape(expr []rune, class bool) (text string, n int, refused string) {
	if len(expr) < 2 {
		return "", 0, "a backslash at the end"
	}
	set := func(s string) string {
		if class {
			return s
		}
		return "[" + s + "]"
	}
	switch c := expr[1]; {
	case strings.ContainsRune("nrtfv", c), c < 0x80 && (unicode.IsPunct(c) || unicode.IsSymbol(c)):
		return string(expr[:2]), 2, ""
	case c == 'd':
		return set(`\p{Nd}` + newerCharacters["Nd"]), 2, ""
	case c == 's':
		return set(spaceClass), 2, ""
	case c == 'S' && !class:
		return "[^" + spaceClass + "]", 2, ""
	case c == 'p' || c == 'P':
		end := strings.IndexRune(string(expr), '}')
		if end < 0 || expr[2] != '{' {
			return "", 0, `a \p without {}`
		}
		name := string(expr)[3:end]
		if unicode.Categories[name] == nil && unicode.Scripts[name] == nil {
			return "", 0, `the class \p{` + name + `}`
		}
		if c == 'P' && class {
			return "", 0, `\P in a set`
		}
		members := `\p{` + name + `}` + newerCharacters[name]
		if c == 'P' {
			return "[^" + members + "]", end + 1, ""
		}
		return set(members), end + 1, ""
	default:
		return "", 0, `the escape \` + string(c)
	}
}

var repeats = regexp.MustCompile(`^\{[0-9]+(,[0-9]*)?\}`)

func repeat(expr []rune) int { return len(repeats.FindString(string(expr))) }

func quoted(s string) string { return strconv.Quote(s) }
