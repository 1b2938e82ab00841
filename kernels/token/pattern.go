package token

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"
)

// compilePattern reads a pattern: {"String": text} or {"Regex": expression}.
//
// The library runs expressions with Oniguruma, this package with RE2. Only
// what means the same in both is accepted: look-around, back-references,
// anchors, flags, possessive repeats, set operations and \w are refused by
// name, and so is an expression that could match nothing at all.
func compilePattern(n node) (*regexp.Regexp, error) {
	fields, err := n.object("String", "Regex")
	if err != nil {
		return nil, err
	}
	text, expr := fields["String"], fields["Regex"]
	if (len(text.raw) == 0) == (len(expr.raw) == 0) {
		return nil, n.errorf("got %s, want either String or Regex", n.shown())
	}
	if len(text.raw) > 0 {
		s, err := short(text, maxPattern)
		if err != nil {
			return nil, err
		}
		if s == "" {
			return nil, text.errorf("got an empty text, want at least one character")
		}
		return regexp.MustCompile(regexp.QuoteMeta(s)), nil
	}
	s, err := short(expr, maxPattern)
	if err != nil {
		return nil, err
	}
	translated, refused := translate([]rune(s))
	if refused != "" {
		return nil, expr.errorf("got %s in %q; its meaning differs between regular expression engines, so it is not read here", refused, s)
	}
	re, err := regexp.Compile(translated)
	if err != nil {
		return nil, expr.errorf("%q: %v", s, err)
	}
	tree, err := syntax.Parse(translated, syntax.Perl)
	if err != nil || matchesNothing(tree) {
		return nil, expr.errorf("got %q, which can match an empty text; want an expression that matches at least one character", s)
	}
	return re, nil
}

// In Oniguruma these are classes of Unicode, in RE2 of ASCII.
const (
	spaceClass = `\t-\r\x{85}\p{Z}`
	digitClass = `\p{Nd}`
)

// translate writes an Oniguruma expression for RE2, or tells what it refuses.
func translate(expr []rune) (re, refused string) {
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
				return "", bad
			}
			out.WriteString(text)
			i += n - 1
			continue
		case class && (c == '[' || c == '&' && next(1) == '&'):
			return "", "a set operation"
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
				return "", "a set that starts with ]"
			}
		case c == '(' && next(1) == '?':
			if next(2) != ':' {
				return "", "a look-around, a flag or a named group"
			}
		case c == '^' || c == '$':
			return "", "an anchor"
		case c == '{':
			n := repeat(expr[i:])
			if n == 0 {
				return "", "a { that is no repeat"
			}
			out.WriteString(string(expr[i : i+n]))
			i += n - 1
			if next(1) == '?' || next(1) == '+' {
				return "", "a repeat after a repeat"
			}
			continue
		case (c == '*' || c == '+' || c == '?') && next(1) == '+':
			return "", "a possessive repeat"
		}
		out.WriteRune(c)
	}
	return out.String(), ""
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
		return set(digitClass), 2, ""
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
		return string(expr)[:end+1], end + 1, ""
	default:
		return "", 0, `the escape \` + string(c)
	}
}

var repeats = regexp.MustCompile(`^\{[0-9]+(,[0-9]*)?\}`)

func repeat(expr []rune) int { return len(repeats.FindString(string(expr))) }

// matchesNothing tells whether an expression can match the empty text.
func matchesNothing(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpLiteral, syntax.OpCharClass, syntax.OpAnyCharNotNL, syntax.OpAnyChar, syntax.OpNoMatch:
		return re.Op == syntax.OpLiteral && len(re.Rune) == 0
	case syntax.OpCapture, syntax.OpPlus:
		return matchesNothing(re.Sub[0])
	case syntax.OpRepeat:
		return re.Min == 0 || matchesNothing(re.Sub[0])
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if !matchesNothing(sub) {
				return false
			}
		}
		return true
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			if matchesNothing(sub) {
				return true
			}
		}
		return false
	}
	return true
}
