package token

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
)

// faulty is a tokenizer whose ids are changed.
type faulty struct {
	Encoder
	encode func(ids []uint32, text string) []uint32
}

func (f faulty) Encode(text string, addSpecial bool) []uint32 {
	return f.encode(f.Encoder.Encode(text, addSpecial), text)
}

func (f faulty) Plain(text string, addSpecial bool) []uint32 {
	return f.encode(f.Encoder.Plain(text, addSpecial), text)
}

// case_ is one case with the answer of the side that faults are laid over.
type case_ struct {
	text string
	answer
}

// faults are the kinds of fault that the kernel finds. Each changes copies of
// a side's own answers, or tells why they do not allow it.
var faults = []struct {
	name, about string
	plant       func(context.Context, Side, []case_) (changed []case_, why string)
}{
	{"swapped ids", "two ids swapped", swapIDs},
	{"dropped space", "a space before the text dropped", dropSpace},
	{"doubled BOS", "the id at the start of a text doubled", doubleStart},
	{"changed merge", "a merge missing", dropMerge},
	{"special token read in plain text", "the plain ids replaced", readSpecial},
	{"changed by its surroundings", "an id lost within a sentence", loseWithin},
	{"changed text", "a space lost in decoding", loseSpace},
	{"changed piece", "a byte of a piece flipped", flipPiece},
}

func faultNames() []string {
	names := make([]string, len(faults))
	for i, f := range faults {
		names[i] = f.name
	}
	return names
}

// plant lays every fault over copies of the side's answers and compares them
// with the answers themselves, so that only the fault can be what is found.
func plant(ctx context.Context, s Side, corpus []string, answers []answer, controls *kernels.Controls) error {
	cases := make([]case_, len(answers))
	for i, a := range answers {
		cases[i] = case_{corpus[i], a}
	}
	for _, fault := range faults {
		if err := ctx.Err(); err != nil {
			return err
		}
		changed, why := fault.plant(ctx, s, cases)
		control := kernels.ControlResult{Name: fault.about, Fault: fault.name, Detail: "not planted: " + why}
		if why == "" {
			control.Detail = "no difference found"
		}
		for _, c := range changed {
			i := slices.IndexFunc(cases, func(x case_) bool { return x.text == c.text })
			if v := compare(c.text, cases[i].answer, c.answer, namesOf(s), namesOf(s)); len(v.found) > 0 {
				control.Red, control.Detail = true, v.found[0].String()
				break
			}
		}
		controls.Add(control)
	}
	return nil
}

// one changes the first case that allows it.
func one(cases []case_, why string, change func(*case_) bool) ([]case_, string) {
	for _, c := range cases {
		for i := range c.ids {
			c.ids[i] = slices.Clone(c.ids[i])
		}
		if change(&c) {
			return []case_{c}, ""
		}
	}
	return nil, why
}

func swapIDs(_ context.Context, _ Side, cases []case_) ([]case_, string) {
	first := -1
	for i, c := range cases {
		if len(c.ids[inText]) > 0 && first < 0 {
			first = i
		}
		for _, y := range c.ids[inText] {
			if first < 0 || y == cases[first].ids[inText][0] {
				continue
			}
			x := cases[first].ids[inText][0]
			return one(cases[i:], "", func(c *case_) bool {
				for _, ids := range c.ids {
					for k, id := range ids {
						if id == x {
							ids[k] = y
						} else if id == y {
							ids[k] = x
						}
					}
				}
				return true
			})
		}
	}
	return nil, "the corpus has fewer than two different ids"
}

func dropSpace(ctx context.Context, s Side, cases []case_) ([]case_, string) {
	for _, c := range cases {
		if rest, ok := strings.CutPrefix(c.text, " "); ok {
			other, err := ask(ctx, s, rest)
			if err != nil {
				return nil, err.Error()
			}
			c.ids = other.ids
			return []case_{c}, ""
		}
	}
	return nil, "the corpus has no text that starts with a space"
}

func doubleStart(_ context.Context, _ Side, cases []case_) ([]case_, string) {
	return one(cases, "no text has an id", func(c *case_) bool {
		if len(c.ids[around]) == 0 {
			return false
		}
		c.ids[around] = append([]uint32{c.ids[around][0]}, c.ids[around]...)
		return true
	})
}

// dropMerge leaves one token of the corpus in two that it could be merged from.
func dropMerge(_ context.Context, _ Side, cases []case_) ([]case_, string) {
	byPiece := map[string]uint32{}
	for _, c := range cases {
		if len(c.pieces) != len(c.ids[around]) {
			continue // the sides differ here, and the pieces are of the other's ids
		}
		for k, p := range c.pieces {
			byPiece[string(p)] = c.ids[around][k]
		}
	}
	return one(cases, "no token of the corpus is made of two others", func(c *case_) bool {
		for k, id := range c.ids[around] {
			if len(c.pieces) != len(c.ids[around]) {
				return false
			}
			for at := 1; at < len(c.pieces[k]); at++ {
				left, okLeft := byPiece[string(c.pieces[k][:at])]
				right, okRight := byPiece[string(c.pieces[k][at:])]
				if okLeft && okRight {
					for i := range c.ids {
						c.ids[i] = split(c.ids[i], id, left, right)
					}
					return true
				}
			}
		}
		return false
	})
}

// split writes two ids in the place of one.
func split(ids []uint32, id, left, right uint32) []uint32 {
	var out []uint32
	for _, x := range ids {
		if x == id {
			out = append(out, left, right)
		} else {
			out = append(out, x)
		}
	}
	return out
}

// readSpecial gives special tokens in plain text, where a case shows that, else leaves an id out.
func readSpecial(_ context.Context, _ Side, cases []case_) ([]case_, string) {
	differ := func(c *case_) bool {
		if c.cannot[plain] || slices.Equal(c.ids[plain], c.ids[inText]) {
			return false
		}
		c.ids[plain] = c.ids[inText]
		return true
	}
	if changed, why := one(cases, "no special token is written out", differ); why == "" {
		return changed, ""
	}
	return one(cases, "no text has plain ids", func(c *case_) bool {
		if c.cannot[plain] || len(c.ids[plain]) == 0 {
			return false
		}
		c.ids[plain] = c.ids[plain][1:]
		return true
	})
}

func loseWithin(_ context.Context, _ Side, cases []case_) ([]case_, string) {
	return one(cases, "no text has ids within a sentence", func(c *case_) bool {
		n := len(c.ids[within])
		if n == 0 {
			return false
		}
		c.ids[within] = slices.Delete(c.ids[within], n/2, n/2+1)
		return true
	})
}

func loseSpace(_ context.Context, _ Side, cases []case_) ([]case_, string) {
	return one(cases, "the corpus has no text with a space", func(c *case_) bool {
		if !strings.Contains(c.texts[0], " ") {
			return false
		}
		c.texts[0] = strings.Replace(c.texts[0], " ", "", 1)
		return true
	})
}

func flipPiece(_ context.Context, _ Side, cases []case_) ([]case_, string) {
	return one(cases, "no id has a piece", func(c *case_) bool {
		for k, p := range c.pieces {
			if len(p) > 0 {
				c.pieces = slices.Clone(c.pieces)
				c.pieces[k] = bytes.Clone(p)
				c.pieces[k][0] ^= 1
				return true
			}
		}
		return false
	})
}
