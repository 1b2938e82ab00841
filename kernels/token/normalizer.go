package token

import (
	"strings"

	"golang.org/x/text/unicode/norm"
)

// normalizer rewrites a text before it is split; nil changes nothing.
type normalizer func(string) string

func loadNormalizer(n node) (normalizer, error) {
	if n.absent() {
		return nil, nil
	}
	kind, err := n.kind()
	if err != nil {
		return nil, err
	}
	switch kind {
	case "Sequence":
		return loadNormalizers(n)
	case "Prepend":
		f, err := n.object("type", "prepend")
		if err != nil {
			return nil, err
		}
		prefix, err := short(f["prepend"], maxPattern)
		if err != nil {
			return nil, err
		}
		return func(s string) string {
			if s == "" {
				return s
			}
			return prefix + s
		}, nil
	case "Replace":
		replace, err := loadReplace(n)
		return replace, err
	case "NFC":
		_, err := n.object("type")
		return norm.NFC.String, err
	}
	return nil, n.errorf("got the normalizer %q, want Sequence, NFC, Prepend or Replace", kind)
}

func loadNormalizers(n node) (normalizer, error) {
	f, err := n.object("type", "normalizers")
	if err != nil {
		return nil, err
	}
	members, err := f["normalizers"].array(maxSteps)
	if err != nil {
		return nil, err
	}
	var steps []normalizer
	for _, m := range members {
		step, err := loadNormalizer(m)
		if err != nil {
			return nil, err
		}
		if step == nil {
			return nil, m.errorf("got null, want a normalizer")
		}
		steps = append(steps, step)
	}
	return func(s string) string {
		for _, step := range steps {
			s = step(s)
		}
		return s
	}, nil
}

// loadReplace reads a Replace, which normalizers and decoders share.
func loadReplace(n node) (func(string) string, error) {
	f, err := n.object("type", "pattern", "content")
	if err != nil {
		return nil, err
	}
	at, err := loadPattern(f["pattern"])
	if err != nil {
		return nil, err
	}
	if at.ahead {
		return nil, f["pattern"].errorf("got a look-ahead, want none where texts are replaced")
	}
	content, err := short(f["content"], maxPattern)
	if err != nil {
		return nil, err
	}
	if literal, complete := at.re.LiteralPrefix(); complete {
		return func(s string) string { return strings.ReplaceAll(s, literal, content) }, nil
	}
	return func(s string) string { return at.re.ReplaceAllLiteralString(s, content) }, nil
}
