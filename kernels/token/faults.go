package token

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/weighmaster/weighmaster/kernels"
)

// faulty is a tokenizer with one fault laid over it.
type faulty struct {
	Encoder
	encode func(ids []uint32, text string, addSpecial bool) []uint32
	decode func(text string) string
}

func (f faulty) Encode(text string, addSpecial bool) []uint32 {
	ids := f.Encoder.Encode(text, addSpecial)
	if f.encode != nil {
		return f.encode(ids, text, addSpecial)
	}
	return ids
}

func (f faulty) Decode(ids []uint32, skipSpecial bool) (string, error) {
	text, err := f.Encoder.Decode(ids, skipSpecial)
	if f.decode != nil && err == nil {
		return f.decode(text), nil
	}
	return text, err
}

// faults are the kinds of fault that the kernel finds. Each makes a faulty copy
// of a tokenizer, or tells why that tokenizer and corpus do not allow it.
var faults = []struct {
	name, about string
	plant       func(Encoder, []string) (copy Encoder, why string)
}{
	{"swapped ids", "two ids swapped", swapIDs},
	{"dropped space", "a space before the text dropped", dropSpace},
	{"doubled BOS", "the id at the start of a text doubled", doubleStart},
	{"changed merge", "a merge missing", dropMerge},
	{"changed text", "a space lost in decoding", loseSpace},
}

func faultNames() []string {
	names := make([]string, len(faults))
	for i, f := range faults {
		names[i] = f.name
	}
	return names
}

// plant lays every fault over a copy of the tokenizer and compares it with the
// tokenizer itself, so that only the fault can be what is found.
func plant(ctx context.Context, e Encoder, corpus []string, controls *kernels.Controls) error {
	for _, fault := range faults {
		copy, why := fault.plant(e, corpus)
		control := kernels.ControlResult{Name: fault.about, Fault: fault.name, Detail: "not planted: " + why}
		if why == "" {
			control.Detail = "no difference found"
		}
		for _, s := range corpus {
			if why != "" {
				break
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if _, findings := compareText(e, copy, s); len(findings) > 0 {
				control.Red, control.Detail = true, findings[0].String()
				break
			}
		}
		controls.Add(control)
	}
	return nil
}

func swapIDs(e Encoder, corpus []string) (Encoder, string) {
	var x, y uint32
	found := 0
	for _, s := range corpus {
		for _, id := range e.Encode(s, false) {
			if found == 0 {
				x, found = id, 1
			} else if id != x {
				y, found = id, 2
				break
			}
		}
		if found == 2 {
			return faulty{Encoder: e, encode: func(ids []uint32, _ string, _ bool) []uint32 {
				for i, id := range ids {
					if id == x {
						ids[i] = y
					} else if id == y {
						ids[i] = x
					}
				}
				return ids
			}}, ""
		}
	}
	return nil, "the corpus has fewer than two different ids"
}

func dropSpace(e Encoder, corpus []string) (Encoder, string) {
	for _, s := range corpus {
		if strings.HasPrefix(s, " ") {
			return faulty{Encoder: e, encode: func(_ []uint32, s string, addSpecial bool) []uint32 {
				return e.Encode(strings.TrimPrefix(s, " "), addSpecial)
			}}, ""
		}
	}
	return nil, "the corpus has no text that starts with a space"
}

func doubleStart(e Encoder, _ []string) (Encoder, string) {
	return faulty{Encoder: e, encode: func(ids []uint32, _ string, addSpecial bool) []uint32 {
		if !addSpecial || len(ids) == 0 {
			return ids
		}
		return append([]uint32{ids[0]}, ids...)
	}}, ""
}

// dropMerge leaves one token of the corpus in the two tokens that it is merged from.
func dropMerge(e Encoder, corpus []string) (Encoder, string) {
	for _, s := range corpus {
		for _, id := range e.Encode(s, false) {
			left, right, ok := parts(e, id)
			if !ok {
				continue
			}
			return faulty{Encoder: e, encode: func(ids []uint32, _ string, _ bool) []uint32 {
				var out []uint32
				for _, x := range ids {
					if x == id {
						out = append(out, left, right)
					} else {
						out = append(out, x)
					}
				}
				return out
			}}, ""
		}
	}
	return nil, "no token of the corpus is made of two others"
}

// parts finds two tokens that make the token of an id.
func parts(e Encoder, id uint32) (left, right uint32, ok bool) {
	text, _ := e.Token(id)
	if e.IsSpecial(id) {
		return 0, 0, false
	}
	for at := range text {
		if at == 0 || !utf8.RuneStart(text[at]) {
			continue
		}
		l, okLeft := e.ID(text[:at])
		r, okRight := e.ID(text[at:])
		if okLeft && okRight {
			return l, r, true
		}
	}
	return 0, 0, false
}

func loseSpace(e Encoder, corpus []string) (Encoder, string) {
	for _, s := range corpus {
		if strings.Contains(s, " ") {
			return faulty{Encoder: e, decode: func(s string) string { return strings.Replace(s, " ", "", 1) }}, ""
		}
	}
	return nil, "the corpus has no text with a space"
}
