package recipe

import (
	"fmt"
	"sort"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// Difference is one tensor whose type is not the recipe's.
type Difference struct {
	Tensor    string
	Got, Want gguf.Type
}

func (d Difference) String() string {
	return fmt.Sprintf("%s: got %s, want %s", d.Tensor, d.Got, d.Want)
}

// Match is a recipe with options, and how far a model's types are from it.
type Match struct {
	Recipe      string // name
	FileType    uint32 // what general.file_type would say
	Options     Options
	Exact       bool
	Differences []Difference // in the model's order; none where Exact
}

// String names the recipe as it is typed, with what differs counted.
func (m Match) String() string {
	s := m.Recipe
	if o := m.Options.String(); o != "" {
		s += " " + o
	}
	if !m.Exact {
		s += fmt.Sprintf(", with %d other types", len(m.Differences))
	}
	return s
}

// Claim judges general.file_type, which is a number that anybody can write: it
// is empty where the match bears it out, else says what is claimed and what the types are.
func (m Match) Claim(fileType *uint32) string {
	if fileType == nil || m.Exact && *fileType == m.FileType {
		return ""
	}
	claimed, known := FileTypeName(*fileType)
	if !known {
		claimed = "unknown"
	}
	switch {
	case m.Exact:
		return fmt.Sprintf("general.file_type claims %d (%s), the types are those of %s", *fileType, claimed, m)
	case *fileType == m.FileType:
		return fmt.Sprintf("general.file_type claims %d (%s), but %d tensors have other types", *fileType, claimed, len(m.Differences))
	}
	return fmt.Sprintf("general.file_type claims %d (%s), the types fit no recipe; the nearest is %s", *fileType, claimed, m)
}

// Recognize names the recipe that fits a model's types (actual, by tensor
// name; the model's own where nil): the exact one with the fewest options or,
// where none fits, the nearest with every difference. Options tried are
// --pure, other types for output and token embedding, an output left alone, and
// a matrix or none. What fits equally well is decided by the file type that the
// file claims and by whether it claims a matrix; the rest is in others, all
// exact where best is, else the next nearest few.
//
// The rules are those of one llama.cpp (see the package comment); older versions chose otherwise.
func Recognize(m Model, actual map[string]gguf.Type, fileType *uint32, matrix bool) (best Match, others []Match) {
	if actual == nil {
		actual = make(map[string]gguf.Type, len(m.Tensors))
		for _, t := range m.Tensors {
			actual[t.Name] = t.Type
		}
	}
	same := m.as(actual)
	c := &candidates{p: prepare(&same)}
	for _, r := range recipes {
		if r.family == copied {
			continue
		}
		for _, o := range []Options{{Matrix: matrix}, {Matrix: !matrix}, {Pure: true, Matrix: matrix}} {
			if o.Pure && !r.Default.Quantized() {
				continue // nothing for --pure to change
			}
			c.try(r, o)
		}
	}
	sort.SliceStable(c.list, func(i, j int) bool { return c.list[i].before(c.list[j], fileType, matrix) })
	if len(c.list) == 0 {
		return Match{}, nil
	}
	exact := c.list[0].count == 0
	for _, k := range c.list[1:] {
		if exact && k.count == 0 || !exact && len(others) < maxNearest {
			others = append(others, k.match(c.p))
		}
	}
	return c.list[0].match(c.p), others
}

// maxNearest bounds the recipes beside the nearest.
const maxNearest = 3

// as is the model with these types, so that what a recipe leaves alone agrees with itself.
func (m Model) as(actual map[string]gguf.Type) Model {
	tensors := make([]Tensor, 0, len(m.Tensors))
	for _, t := range m.Tensors {
		if typ, ok := actual[t.Name]; ok {
			t.Type = typ
		}
		tensors = append(tensors, t)
	}
	m.Tensors = tensors
	return m
}

type candidates struct {
	p    *prepared // its types are the actual ones
	list []candidate
}

// candidate is a recipe with options, before its differences are listed.
type candidate struct {
	r     Recipe
	o     Options
	types []gguf.Type
	count int // of differences
	// out and embedding are where these two differ, -1 for not
	out, embedding int
}

// try adds the recipe with these options and, where output or token embedding
// differ, with the options that would make them so.
func (c *candidates) try(r Recipe, o Options) {
	base, ok := c.compare(r, o)
	if !ok {
		return
	}
	c.list = append(c.list, base)
	if base.out < 0 && base.embedding < 0 {
		return
	}
	forced := o
	if base.embedding >= 0 {
		forced.TokenEmbedding = &c.p.m.Tensors[base.embedding].Type
	}
	if base.out >= 0 {
		if typ := &c.p.m.Tensors[base.out].Type; typ.Quantized() {
			forced.Output = typ
		} else { // whatever stands there unquantized was left alone
			forced.LeaveOutput = true
		}
	}
	if better, ok := c.compare(r, forced); ok && better.count < base.count {
		c.list = append(c.list, better)
	}
}

// compare is false for a recipe that the tool cannot carry out on this model.
func (c *candidates) compare(r Recipe, o Options) (candidate, bool) {
	k := candidate{r: r, o: o, out: -1, embedding: -1}
	var err error
	if k.types, err = r.list(c.p, o); err != nil {
		return k, false
	}
	for i, t := range c.p.m.Tensors {
		if t.Type == k.types[i] {
			continue
		}
		k.count++
		switch t.Name {
		case "output.weight":
			k.out = i
		case "token_embd.weight":
			k.embedding = i
		}
	}
	return k, true
}

func (k candidate) match(p *prepared) Match {
	m := Match{Recipe: k.r.Name, FileType: k.r.FileType, Options: k.o, Exact: k.count == 0}
	for i, t := range p.m.Tensors {
		if t.Type != k.types[i] {
			m.Differences = append(m.Differences, Difference{t.Name, t.Type, k.types[i]})
		}
	}
	return m
}

// before ranks: fewer differences, the claimed file type, fewer options, the claimed matrix.
func (k candidate) before(n candidate, fileType *uint32, matrix bool) bool {
	if k.count != n.count {
		return k.count < n.count
	}
	if fileType != nil {
		if a, b := k.r.FileType == *fileType, n.r.FileType == *fileType; a != b {
			return a
		}
	}
	if a, b := k.o.count(), n.o.count(); a != b {
		return a < b
	}
	return k.o.Matrix == matrix && n.o.Matrix != matrix
}

func (o Options) count() int {
	n := len(o.Overrides)
	for _, set := range []bool{o.Pure, o.Output != nil, o.TokenEmbedding != nil, o.LeaveOutput} {
		if set {
			n++
		}
	}
	return n
}
