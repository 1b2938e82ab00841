package derive

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// unit is a matrix of either side that is matched by its content: a tensor, or
// one slice of a tensor of three and more dimensions (an expert, say).
type unit struct {
	name   string
	t      *tensor
	first  int64 // index of its first weight
	rows   int64
	width  int64
	stored gguf.Type
}

const (
	// maxRows bounds the rows of a unit that are matched in any order: the hashes of all are
	// held, 8 MiB. The largest vocabularies of today have that many.
	maxRows = 1 << 18
	// maxUnits bounds the units that are hashed at once.
	maxUnits = 8
)

// units takes a side apart. Trailing dimensions of one do not count.
func (s *side) units() []unit {
	var list []unit
	for i := range s.tensors {
		t := &s.tensors[i]
		width, rows, experts := int64(1), int64(1), int64(1)
		for j, d := range t.dims {
			switch j {
			case 0:
				width = int64(d)
			case 1:
				rows = int64(d)
			default:
				experts *= int64(d)
			}
		}
		for n := range experts {
			u := unit{name: t.name, t: t, first: n * rows * width, rows: rows, width: width, stored: t.typ}
			if experts > 1 {
				u.name = fmt.Sprintf("%s slice %d", t.name, n)
			}
			list = append(list, u)
		}
	}
	return list
}

func (u *unit) shape() [2]int64 { return [2]int64{u.width, u.rows} }

// content is the digest of a unit's rows in one type: as they stand, and in any order.
type content struct{ ordered, sorted [sha256.Size]byte }

// digest hashes a unit's rows as one type stores them; ok is false where that is not recomputed.
func (u *unit) digest(ctx context.Context, typ gguf.Type, m making) (c content, ok bool, err error) {
	made, err := newTensor(u.name, u.t.dims, typ)
	if typ == u.stored {
		made, err = *u.t, nil
	}
	p := &pair{src: u.t, dst: &made}
	if err == nil && !p.same() {
		p, err = newPair(u.t, &made)
	}
	if err != nil || u.width%int64(made.rows.Codec.Weights) != 0 {
		return c, false, nil
	}
	var k *maker
	if !p.same() {
		if k, err = p.maker(m); err != nil {
			return c, false, nil
		}
	}
	b := pool.Get().(*buffers)
	defer pool.Put(b)
	all, each := sha256.New(), make([][sha256.Size]byte, 0, min(u.rows, maxRows))
	step := max(1, chunk/max(1, u.width)) * u.width // a snapshot may hold rows of no weights
	rowBytes := made.rows.Codec.Size(u.width)
	for at, end := u.first, u.first+u.rows*u.width; at < end; at += step {
		if err := ctx.Err(); err != nil {
			return c, false, err
		}
		n := min(step, end-at)
		b.raw = grow(b.raw, u.t.rows.Codec.Size(n))
		if err := u.t.rows.Raw(b.raw, at); err != nil {
			return c, false, fmt.Errorf("tensor %s: %w", u.t.origin, err)
		}
		body := p.made(b, k, at, n)
		all.Write(body)
		for row := int64(0); row < int64(len(body)) && u.rows <= maxRows; row += rowBytes {
			each = append(each, sha256.Sum256(body[row:row+rowBytes]))
		}
	}
	all.Sum(c.ordered[:0])
	slices.SortFunc(each, func(a, b [sha256.Size]byte) int { return slices.Compare(a[:], b[:]) })
	sorted := sha256.New()
	for i := range each {
		sorted.Write(each[i][:])
	}
	if c.sorted = c.ordered; u.rows <= maxRows {
		sorted.Sum(c.sorted[:0])
	}
	return c, true, nil
}

// Match is one tensor of the target with the one of the source that has its content.
type Match struct {
	Target string `json:"target"`
	Source string `json:"source"`
	Moved  bool   `json:"rowsMoved"` // the same rows in another order
	Type   string `json:"type"`      // of the target
}

// Bijection is what the contents of both sides have in common, names left aside.
type Bijection struct {
	Architecture string   `json:"architecture"` // of the snapshot that has no mapping
	Matches      []Match  `json:"matches"`
	OnlySource   []string `json:"onlyInSource"`
	OnlyTarget   []string `json:"onlyInTarget"`
}

// matchContent pairs the tensors of both sides by what their rows are in the
// target's types, in any row order.
func matchContent(ctx context.Context, src, dst *side) (Bijection, error) {
	found := Bijection{Matches: []Match{}, OnlySource: []string{}, OnlyTarget: []string{}}
	sources, targets := src.units(), dst.units()
	theirs, err := digests(ctx, targets, func(u *unit) []gguf.Type { return []gguf.Type{u.stored} })
	if err != nil {
		return found, err
	}
	wanted := map[[2]int64][]gguf.Type{}
	for i := range targets {
		if s := targets[i].shape(); !slices.Contains(wanted[s], targets[i].stored) {
			wanted[s] = append(wanted[s], targets[i].stored)
		}
	}
	ours, err := digests(ctx, sources, func(u *unit) []gguf.Type { return wanted[u.shape()] })
	if err != nil {
		return found, err
	}
	index := indexContents(sources, ours)
	for i := range targets {
		t := &targets[i]
		j, moved := -1, false
		if c, ok := theirs[key{i, t.stored}]; ok {
			j, moved = index.take(t, c)
		}
		if j < 0 {
			found.OnlyTarget = append(found.OnlyTarget, t.name)
			continue
		}
		found.Matches = append(found.Matches, Match{Target: t.name, Source: sources[j].name, Moved: moved, Type: typeName(t.stored)})
	}
	for j := range sources {
		if !index.used[j] {
			found.OnlySource = append(found.OnlySource, sources[j].name)
		}
	}
	return found, nil
}

// key is a unit's position and a type.
type key struct {
	unit int
	typ  gguf.Type
}

// contentKey is what two units of the same content agree in.
type contentKey struct {
	shape  [2]int64
	typ    gguf.Type
	digest [sha256.Size]byte
}

// contents finds units by content, each once, in their order.
type contents struct {
	ordered, sorted map[contentKey][]int
	used            map[int]bool
}

func indexContents(list []unit, digests map[key]content) *contents {
	c := &contents{map[contentKey][]int{}, map[contentKey][]int{}, map[int]bool{}}
	for _, k := range slices.SortedFunc(maps.Keys(digests), func(a, b key) int { return cmp.Compare(a.unit, b.unit) }) {
		one := contentKey{list[k.unit].shape(), k.typ, digests[k].ordered}
		c.ordered[one] = append(c.ordered[one], k.unit)
		one.digest = digests[k].sorted
		c.sorted[one] = append(c.sorted[one], k.unit)
	}
	return c
}

// take finds a unit that was not taken yet: rows as they stand before rows in another order; -1 for none.
func (c *contents) take(t *unit, want content) (at int, moved bool) {
	one := contentKey{t.shape(), t.stored, want.ordered}
	for _, i := range c.ordered[one] {
		if !c.used[i] {
			c.used[i] = true
			return i, false
		}
	}
	one.digest = want.sorted
	for _, i := range c.sorted[one] {
		if !c.used[i] {
			c.used[i] = true
			return i, true
		}
	}
	return -1, false
}

// digests hashes every unit in every wanted type, in parallel.
func digests(ctx context.Context, list []unit, types func(*unit) []gguf.Type) (map[key]content, error) {
	var keys []key
	for i := range list {
		for _, typ := range types(&list[i]) {
			keys = append(keys, key{i, typ})
		}
	}
	results := make([]*content, len(keys))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(min(maxUnits, runtime.GOMAXPROCS(0)))
	for i, k := range keys {
		group.Go(func() error {
			c, ok, err := list[k.unit].digest(ctx, k.typ, plainly)
			if ok {
				results[i] = &c
			}
			return err
		})
	}
	out := map[key]content{}
	err := group.Wait()
	for i, c := range results {
		if c != nil {
			out[keys[i]] = *c
		}
	}
	return out, err
}

// names lists up to ten names.
func names(list []string) string {
	const most = 10
	s := strings.Join(list[:min(len(list), most)], ", ")
	if len(list) > most {
		s += fmt.Sprintf(" and %d more", len(list)-most)
	}
	return s
}
