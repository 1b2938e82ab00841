package token

import (
	"strings"
	"unicode/utf8"
)

// decoder rewrites the tokens of an id list; in the end they are joined.
type decoder func([]string) []string

func loadDecoder(n node) (decoder, error) {
	if n.absent() { // the library then joins tokens with spaces
		return func(tokens []string) []string { return []string{strings.Join(tokens, " ")} }, nil
	}
	return loadStep(n)
}

func loadStep(n node) (decoder, error) {
	kind, err := n.kind()
	if err != nil {
		return nil, err
	}
	switch kind {
	case "Sequence":
		return loadDecoders(n)
	case "Replace":
		replace, err := loadReplace(n)
		if err != nil {
			return nil, err
		}
		return each(replace), nil
	case "ByteFallback":
		_, err := n.object("type")
		return joinBytes, err
	case "Fuse":
		_, err := n.object("type")
		return func(tokens []string) []string { return []string{strings.Join(tokens, "")} }, err
	case "Strip":
		return loadStrip(n)
	case "Metaspace":
		m, err := loadMetaspace(n)
		if err != nil {
			return nil, err
		}
		return m.decode, nil
	case "ByteLevel":
		_, err := n.object("type", "add_prefix_space", "trim_offsets", "use_regex")
		return joinByteChars, err
	}
	return nil, n.errorf("got the decoder %q, want Sequence, Replace, ByteFallback, ByteLevel, Fuse, Strip or Metaspace", kind)
}

func loadDecoders(n node) (decoder, error) {
	f, err := n.object("type", "decoders")
	if err != nil {
		return nil, err
	}
	members, err := f["decoders"].array(maxSteps)
	if err != nil {
		return nil, err
	}
	var steps []decoder
	for _, m := range members {
		step, err := loadStep(m)
		if err != nil {
			return nil, err
		}
		steps = append(steps, step)
	}
	return func(tokens []string) []string {
		for _, step := range steps {
			tokens = step(tokens)
		}
		return tokens
	}, nil
}

func each(rewrite func(string) string) decoder {
	return func(tokens []string) []string {
		out := make([]string, len(tokens))
		for i, t := range tokens {
			out[i] = rewrite(t)
		}
		return out
	}
}

// joinBytes makes characters of runs of byte tokens. A run that is no UTF-8
// gives one U+FFFD for each of its bytes.
func joinBytes(tokens []string) []string {
	var out []string
	var run []byte
	flush := func() {
		switch {
		case len(run) == 0:
		case utf8.Valid(run):
			out = append(out, string(run))
		default:
			out = append(out, strings.Repeat("\uFFFD", len(run)))
		}
		run = run[:0]
	}
	for _, t := range tokens {
		if b, ok := byteOf(t); ok {
			run = append(run, b)
			continue
		}
		flush()
		out = append(out, t)
	}
	flush()
	return out
}

// byteOf reads <0xXX>.
func byteOf(t string) (byte, bool) {
	if len(t) != 6 || t[:3] != "<0x" || t[5] != '>' {
		return 0, false
	}
	digits := t[3:5]
	if digits[0] == '+' { // the library's parser takes a sign
		digits = "0" + digits[1:]
	}
	var b byte
	for _, c := range []byte(digits) {
		d := strings.IndexByte("0123456789abcdef", c)
		if c >= 'A' && c <= 'F' {
			d = int(c-'A') + 10
		}
		if d < 0 {
			return 0, false
		}
		b = b<<4 | byte(d)
	}
	return b, true
}

func loadStrip(n node) (decoder, error) {
	f, err := n.object("type", "content", "start", "stop")
	if err != nil {
		return nil, err
	}
	content, err := scalar[string](f["content"])
	if err != nil {
		return nil, err
	}
	if utf8.RuneCountInString(content) != 1 {
		return nil, f["content"].errorf("got %q, want one character", content)
	}
	start, err := scalar[uint32](f["start"])
	if err != nil {
		return nil, err
	}
	stop, err := scalar[uint32](f["stop"])
	if err != nil {
		return nil, err
	}
	return each(func(t string) string {
		for i := uint32(0); i < start && strings.HasPrefix(t, content); i++ {
			t = t[len(content):]
		}
		for i := uint32(0); i < stop && strings.HasSuffix(t, content); i++ {
			t = t[:len(t)-len(content)]
		}
		return t
	}), nil
}

// decode writes marks as spaces again. Unless nothing is put before a text,
// the marks of the first token give nothing.
func (m *metaspace) decode(tokens []string) []string {
	out := make([]string, len(tokens))
	for i, t := range tokens {
		space := " "
		if i == 0 && m.scheme != "never" {
			space = ""
		}
		out[i] = strings.ReplaceAll(t, m.mark, space)
	}
	return out
}
