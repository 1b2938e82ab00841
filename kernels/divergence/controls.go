package divergence

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
)

// Kinds of fault that a run plants.
const (
	faultFinite     = "number that is not finite"
	faultPrediction = "prediction"
	faultOrder      = "order"
	faultDomain     = "domain"
	faultLength     = "length"
	faultCorpus     = "corpus"
)

// planter plants faults in copies of one text of the run's input.
type planter struct {
	ctx       context.Context
	ref, cand Side // one text each
	base      []row
	controls  *kernels.Controls
}

// plant runs the check on one text with each fault in a copy of it. A fault in
// a row must change what is measured of that row and of no other.
func plant(ctx context.Context, c *kernels.Controls, reference, candidate Side) error {
	p := planter{ctx: ctx, controls: c}
	p.ref, p.cand = choose(reference, candidate)
	var err error
	if _, p.base, err = examine(ctx, p.ref, p.cand); err != nil {
		return err
	}
	p.incomparable()
	p.notFinite()
	p.winner()
	p.swap()
	return ctx.Err()
}

// choose takes the first text that is finite on both sides and long enough to
// swap two rows; the built-in sample where there is none.
func choose(reference, candidate Side) (Side, Side) {
	for i, t := range reference.Texts {
		ref, cand := reference, candidate
		ref.Texts, cand.Texts = reference.Texts[i:i+1], candidate.Texts[i:i+1]
		if len(t.IDs) > 2 && len(notFinite(ref, cand)) == 0 {
			return ref, cand
		}
	}
	return sample()
}

func (p planter) add(name, fault string, red bool, detail string) {
	p.controls.Add(kernels.ControlResult{Name: name, Fault: fault, Red: red, Detail: detail})
}

func (p planter) incomparable() {
	text := p.cand.Texts[0]
	other := p.cand
	other.Domain = Domain{RealIDs, p.cand.Domain.IDs - 1}
	if p.cand.Domain.Name == RealIDs {
		other.Domain = Domain{FullWidth, len(text.Rows[0])}
	}
	p.refused("the candidate over another domain of ids", faultDomain, other)
	other = p.cand
	other.Corpus = godigest.FromString("another corpus")
	p.refused("the candidate over another corpus", faultCorpus, other)
	ids := slices.Clone(text.IDs)
	ids[1] = (ids[1] + 1) % uint32(p.cand.Domain.IDs)
	p.refused("the candidate's text with another token", faultCorpus, with(p.cand, Text{text.Name, ids, text.Rows}))
	p.refused("the candidate's last row missing", faultLength, with(p.cand, Text{text.Name, text.IDs, text.Rows[:len(text.Rows)-1]}))
}

func (p planter) refused(name, fault string, cand Side) {
	_, _, err := examine(p.ctx, p.ref, cand)
	p.add(name, fault, errors.Is(err, ErrNotComparable), fmt.Sprint(err))
}

// notFinite plants where a look at the winner alone would not see it: in the
// smallest logit of a row, and beyond the domain where there are such columns.
func (p planter) notFinite() {
	inf := float32(math.Inf(1))
	r, c := p.ref.Texts[0].Rows[0], p.cand.Texts[0].Rows[0]
	at := lowest(c)
	p.unfinite("NaN away from the winner, in one row of the candidate", 1, p.ref, withRow(p.cand, 0, changed(c, at, float32(math.NaN()))))
	p.unfinite("the same infinity on both sides", 2, withRow(p.ref, 0, changed(r, at, inf)), withRow(p.cand, 0, changed(c, at, inf)))
	p.unfinite("NaN in the last column of the reference's last row", 1, lastRow(p.ref, float32(math.NaN())), p.cand)
}

func (p planter) unfinite(name string, want int, ref, cand Side) {
	found, rows, err := examine(p.ctx, ref, cand)
	detail := fmt.Sprintf("%d findings, %d rows measured", len(found), len(rows))
	if len(found) > 0 {
		detail = found[0].String()
	}
	p.add(name, faultFinite, err == nil && len(found) == want && rows == nil, detail)
}

// winner gives the candidate's first row another winner: where the sides agreed
// they no longer do, where they did not they do, and nothing else changes.
func (p planter) winner() {
	row := slices.Clone(p.cand.Texts[0].Rows[0])
	n := p.cand.Domain.IDs
	from, at := p.base[0].candTop, p.base[0].refTop
	if from == at {
		at = lowest(row[:n])
	}
	if row[at] < row[from] {
		row[at], row[from] = row[from], row[at]
	} else { // a tie: raise one of them
		at = max(at, (from+1)%n)
		row[at] += max(1, row[at], -row[at])
	}
	found, rows, err := examine(p.ctx, p.ref, withRow(p.cand, 0, row))
	red := err == nil && len(found) == 0 && agree(rows[0]) != agree(p.base[0]) && rows[0].kl != p.base[0].kl && differ(p.base, rows, 0)
	p.add("one row of the candidate with another winner", faultPrediction, red, say(rows, err, 0))
}

// swap exchanges two neighbouring rows of the candidate that are not alike.
func (p planter) swap() {
	rows := p.cand.Texts[0].Rows
	for i := range len(p.base) - 1 {
		if slices.Equal(rows[i], rows[i+1]) {
			continue
		}
		swapped := withRow(withRow(p.cand, i, rows[i+1]), i+1, rows[i])
		_, got, err := examine(p.ctx, p.ref, swapped)
		p.add("two rows of the candidate swapped", faultOrder, err == nil && differ(p.base, got, i, i+1), say(got, err, i))
		return
	}
	p.add("two rows of the candidate swapped", faultOrder, false, "all rows of the text are alike: a swap cannot be seen")
}

// differ tells whether exactly the named rows changed.
func differ(base, rows []row, at ...int) bool {
	for i := range base {
		if (base[i] != rows[i]) != slices.Contains(at, i) {
			return false
		}
	}
	return len(base) == len(rows)
}

func agree(r row) bool { return r.refTop == r.candTop }

func say(rows []row, err error, at int) string {
	if err != nil {
		return err.Error()
	}
	if at >= len(rows) {
		return "nothing was measured"
	}
	return fmt.Sprintf("row %d: KL %.6g nats, largest log-probability difference %.6g nats, winners agree: %v", at, rows[at].kl, rows[at].diffMax, agree(rows[at]))
}

// with returns the side with its one text replaced.
func with(s Side, t Text) Side {
	s.Texts = []Text{t}
	return s
}

// withRow returns the side with one row of its one text replaced.
func withRow(s Side, at int, row []float32) Side {
	t := s.Texts[0]
	t.Rows = slices.Clone(t.Rows)
	t.Rows[at] = row
	return with(s, t)
}

func lastRow(s Side, v float32) Side {
	at := len(s.Texts[0].Rows) - 1
	row := s.Texts[0].Rows[at]
	return withRow(s, at, changed(row, len(row)-1, v))
}

// changed is a copy of the row with one value replaced.
func changed(row []float32, at int, v float32) []float32 {
	row = slices.Clone(row)
	row[at] = v
	return row
}

func lowest(row []float32) int {
	at := 0
	for i, v := range row {
		if v < row[at] {
			at = i
		}
	}
	return at
}
