package token

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// metaspace writes spaces as another character, and may put one before the text.
type metaspace struct {
	mark   string // the character that stands for a space
	scheme string // when one is put before: never, always, first
	whole  bool   // do not split before each mark
	marks  pattern
}

func loadMetaspace(n node) (*metaspace, error) {
	f, err := n.object("type", "replacement", "prepend_scheme", "split")
	if err != nil {
		return nil, err
	}
	m := &metaspace{}
	if m.mark, err = scalar[string](f["replacement"]); err != nil {
		return nil, err
	}
	if utf8.RuneCountInString(m.mark) != 1 {
		return nil, f["replacement"].errorf("got %q, want one character", m.mark)
	}
	if m.scheme, err = scalar[string](f["prepend_scheme"]); err != nil {
		return nil, err
	}
	if m.scheme != "never" && m.scheme != "always" && m.scheme != "first" {
		return nil, f["prepend_scheme"].errorf("got %q, want never, always or first", m.scheme)
	}
	split, err := scalar[bool](f["split"])
	if err != nil {
		return nil, err
	}
	m.whole = !split
	m.marks = pattern{re: regexp.MustCompile(regexp.QuoteMeta(m.mark))}
	return m, nil
}

func (m *metaspace) split(p piece) []piece {
	p.text = strings.ReplaceAll(p.text, " ", m.mark)
	if (m.scheme == "always" || m.scheme == "first" && p.first) && !strings.HasPrefix(p.text, m.mark) {
		p.text = m.mark + p.text
	}
	if m.whole {
		return []piece{p}
	}
	return cut(p, m.marks, mergedWithNext, false)
}
