package token

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// piece is a part of the text that the model sees by itself. First says that
// it begins where the text begins.
type piece struct {
	text  string
	first bool
}

// pretokenizer cuts a piece; nil leaves it whole.
type pretokenizer func(piece) []piece

func loadPretokenizer(n node) (pretokenizer, error) {
	if n.absent() {
		return nil, nil
	}
	kind, err := n.kind()
	if err != nil {
		return nil, err
	}
	switch kind {
	case "Sequence":
		return loadPretokenizers(n)
	case "Metaspace":
		m, err := loadMetaspace(n)
		if err != nil {
			return nil, err
		}
		return m.split, nil
	case "Split":
		return loadSplit(n)
	case "Digits":
		return loadDigits(n)
	}
	return nil, n.errorf("got the pre-tokenizer %q, want Sequence, Metaspace, Split or Digits", kind)
}

func loadPretokenizers(n node) (pretokenizer, error) {
	f, err := n.object("type", "pretokenizers")
	if err != nil {
		return nil, err
	}
	members, err := f["pretokenizers"].array(maxSteps)
	if err != nil {
		return nil, err
	}
	var steps []pretokenizer
	for _, m := range members {
		step, err := loadPretokenizer(m)
		if err != nil {
			return nil, err
		}
		if step == nil {
			return nil, m.errorf("got null, want a pre-tokenizer")
		}
		steps = append(steps, step)
	}
	return func(p piece) []piece {
		pieces := []piece{p}
		for _, step := range steps {
			var cut []piece
			for _, p := range pieces {
				cut = append(cut, step(p)...)
			}
			pieces = cut
		}
		return pieces
	}, nil
}

// cut splits a piece at the matches of an expression.
func cut(p piece, re *regexp.Regexp, join behaviour, invert bool) []piece {
	spans := spansOf(re, p.text)
	if invert {
		for i := range spans {
			spans[i].match = !spans[i].match
		}
	}
	var out []piece
	for _, s := range join(spans) {
		out = append(out, piece{p.text[s.from:s.to], p.first && s.from == 0})
	}
	return out
}

func loadSplit(n node) (pretokenizer, error) {
	f, err := n.object("type", "pattern", "behavior", "invert")
	if err != nil {
		return nil, err
	}
	re, err := compilePattern(f["pattern"])
	if err != nil {
		return nil, err
	}
	name, err := scalar[string](f["behavior"])
	if err != nil {
		return nil, err
	}
	join, ok := behaviours[name]
	if !ok {
		return nil, f["behavior"].errorf("got %q, want Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous", name)
	}
	invert, err := scalar[bool](f["invert"])
	if err != nil {
		return nil, err
	}
	return func(p piece) []piece { return cut(p, re, join, invert) }, nil
}

var numbers = regexp.MustCompile(`\p{N}`)

func loadDigits(n node) (pretokenizer, error) {
	f, err := n.object("type", "individual_digits")
	if err != nil {
		return nil, err
	}
	individual, err := scalar[bool](f["individual_digits"])
	if err != nil {
		return nil, err
	}
	join := contiguous
	if individual {
		join = behaviours["Isolated"]
	}
	return func(p piece) []piece { return cut(p, numbers, join, false) }, nil
}

// metaspace writes spaces as another character, and may put one before the text.
type metaspace struct {
	mark   string // the character that stands for a space
	scheme string // when one is put before: never, always, first
	whole  bool   // do not split before each mark
	marks  *regexp.Regexp
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
	m.marks = regexp.MustCompile(regexp.QuoteMeta(m.mark))
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
