package token

// span is a part of a text, in bytes. Behaviours decide which spans are joined.
type span struct {
	from, to int
	match    bool
}

// spansOf cuts a text into the matches of a pattern and what lies between them.
func spansOf(p pattern, s string) []span {
	var spans []span
	at := 0
	for _, m := range p.matches(s) {
		if m[0] > at {
			spans = append(spans, span{at, m[0], false})
		}
		spans = append(spans, span{m[0], m[1], true})
		at = m[1]
	}
	if at < len(s) {
		spans = append(spans, span{at, len(s), false})
	}
	return spans
}

// behaviour says what becomes of the delimiters of a split.
type behaviour func([]span) []span

// behaviours are those of the library's SplitDelimiterBehavior.
var behaviours = map[string]behaviour{
	"Isolated":           func(spans []span) []span { return spans },
	"Removed":            removed,
	"MergedWithPrevious": mergedWithPrevious,
	"MergedWithNext":     mergedWithNext,
	"Contiguous":         contiguous,
}

func removed(spans []span) []span {
	var out []span
	for _, s := range spans {
		if !s.match {
			out = append(out, s)
		}
	}
	return out
}

func mergedWithPrevious(spans []span) []span {
	var out []span
	before := false
	for _, s := range spans {
		if s.match && !before && len(out) > 0 {
			out[len(out)-1].to = s.to
		} else {
			out = append(out, s)
		}
		before = s.match
	}
	return out
}

func mergedWithNext(spans []span) []span {
	var out []span
	held := -1 // where the match that waits for its next span begins
	for _, s := range spans {
		switch {
		case s.match && held < 0:
			held = s.from
		case s.match:
			out = append(out, span{from: held, to: s.from})
			held = s.from
		case held >= 0:
			out = append(out, span{from: held, to: s.to})
			held = -1
		default:
			out = append(out, s)
		}
	}
	if held >= 0 {
		out = append(out, span{from: held, to: spans[len(spans)-1].to})
	}
	return out
}

func contiguous(spans []span) []span {
	var out []span
	before := false
	for _, s := range spans {
		if s.match == before && len(out) > 0 {
			out[len(out)-1].to = s.to
		} else {
			out = append(out, s)
		}
		before = s.match
	}
	return out
}
