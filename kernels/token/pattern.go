package token

import (
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

// pattern is an expression that cuts texts. Pre-tokenizers of byte-level
// vocabularies end in \s+(?!\S)|\s+, which RE2 has no words for: white space,
// but where a word follows, without the last character, which is left to the
// word. Here its capture stands for it.
type pattern struct {
	re    *regexp.Regexp
	ahead bool // group 1 is \s+(?!\S)|\s+
}

// matches gives the bytes of every match, from left to right.
func (p pattern) matches(s string) [][]int {
	if !p.ahead {
		return p.re.FindAllStringIndex(s, -1)
	}
	var all [][]int
	for at := 0; at < len(s); {
		m := p.re.FindStringSubmatchIndex(s[at:])
		if m == nil {
			break
		}
		from, to := at+m[0], at+m[1]
		if m[2] >= 0 && to < len(s) {
			_, last := utf8.DecodeLastRuneInString(s[from:to])
			if to-last > from {
				to -= last
			}
		}
		all = append(all, []int{from, to})
		at = to
	}
	return all
}

// loadPattern reads a pattern: {"String": text} or {"Regex": expression}.
func loadPattern(n node) (pattern, error) {
	fields, err := n.object("String", "Regex")
	if err != nil {
		return pattern{}, err
	}
	text, expr := fields["String"], fields["Regex"]
	if (len(text.raw) == 0) == (len(expr.raw) == 0) {
		return pattern{}, n.errorf("got %s, want either String or Regex", n.shown())
	}
	if len(text.raw) > 0 {
		s, err := short(text, maxPattern)
		if err != nil {
			return pattern{}, err
		}
		if s == "" {
			return pattern{}, text.errorf("got an empty text, want at least one character")
		}
		return pattern{re: regexp.MustCompile(regexp.QuoteMeta(s))}, nil
	}
	s, err := short(expr, maxPattern)
	if err != nil {
		return pattern{}, err
	}
	p, refused := compile(s)
	if refused != "" {
		return pattern{}, expr.errorf("%s", refused)
	}
	return p, nil
}

// compile makes a pattern of an expression in Oniguruma's syntax, or tells what
// is wrong with it.
func compile(expr string) (p pattern, refused string) {
	translated, ahead, refused := translate(expr)
	if refused != "" {
		return pattern{}, "got " + refused + " in " + quoted(expr) + "; its meaning differs between regular expression engines, so it is not read here"
	}
	re, err := regexp.Compile(translated)
	if err != nil {
		return pattern{}, quoted(expr) + ": " + err.Error()
	}
	tree, err := syntax.Parse(translated, syntax.Perl)
	if err != nil || matchesNothing(tree) {
		return pattern{}, "got " + quoted(expr) + ", which can match an empty text; want an expression that matches at least one character"
	}
	return pattern{re, ahead}, ""
}

// mustCompile is for the expressions of this package.
func mustCompile(expr string) pattern {
	p, refused := compile(expr)
	if refused != "" {
		panic(refused)
	}
	return p
}

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
