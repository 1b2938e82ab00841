package token

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weighmaster/weighmaster/kernels"
)

// The six comparisons of a case.
const (
	inText  = iota // ids, special tokens that are written out read
	around         // ids with BOS and EOS
	plain          // ids, special tokens that are written out as text
	within         // ids of the case in the middle of a sentence
	text_          // text of the ids of inText and around by the first side, special tokens included, and without them where both can
	pieces_        // bytes of every id alone
	comparisons
)

// What stands around a case in the comparison within.
const before, after = "As I said, ", " and so on."

// Within is a case in the middle of a sentence, as it is asked about.
func Within(text string) string { return before + text + after }

// asked are the ids that a side is asked for, by comparison.
var asked = [4]struct {
	mode  Mode
	where string
}{
	inText: {Mode{}, "special tokens added: false"},
	around: {Mode{Special: true}, "special tokens added: true"},
	plain:  {Mode{Plain: true}, "special tokens as text"},
	within: {Mode{}, "within a sentence"},
}

// answer is what a side makes of one case. Texts and pieces are of the first
// side's ids, so that a difference there is not told again.
type answer struct {
	ids    [4][]uint32
	texts  [4]string // of inText and of around, then without special tokens
	errs   [4]error
	pieces [][]byte
	bad    error // pieces could not be given
	cannot [comparisons]bool
}

// ask encodes one case in every way.
func ask(ctx context.Context, s Side, c string) (a answer, err error) {
	for i, q := range asked {
		whole := c
		if i == within {
			whole = Within(c)
		}
		if a.ids[i], err = s.IDs(ctx, whole, q.mode); errors.Is(err, ErrCannot) {
			a.cannot[i], err = true, nil
		}
		if err != nil {
			return a, fmt.Errorf("%.80q, %s: %w", c, q.where, err)
		}
	}
	return a, nil
}

// write decodes the first side's ids. A side's refusal of an id is an answer; only the end of ctx is an error.
func (a *answer) write(ctx context.Context, s Side, of answer, joined, skip bool) error {
	for i := range 2 {
		a.texts[i], a.errs[i] = textOf(ctx, s, of.ids[i], joined)
		if l, ok := s.(local); ok && skip {
			a.texts[2+i], a.errs[2+i] = l.skipped(of.ids[i])
		}
		if errors.Is(a.errs[i], ErrCannot) {
			a.cannot[text_] = true
		}
	}
	a.pieces, a.bad = s.Pieces(ctx, of.ids[around])
	a.cannot[pieces_] = errors.Is(a.bad, ErrCannot)
	return ctx.Err()
}

// verdict is what the six comparisons of one case gave.
type verdict struct {
	found                 []kernels.Finding
	mismatches, undecided int // comparisons
}

// compare holds two answers against each other. Got is b's, want a's; a and b name their ids.
func compare(c string, a, b answer, nameA, nameB names) (v verdict) {
	for i := range comparisons {
		var found []kernels.Finding
		switch {
		case a.cannot[i] || b.cannot[i]:
			v.undecided++
		case i == text_:
			found = textDifferences(c, a, b)
		case i == pieces_:
			found = pieceDifferences(c, a, b)
		default:
			found = idDifferences(c, i, a, b, nameA, nameB)
		}
		if len(found) > 0 {
			v.mismatches++
		}
		v.found = append(v.found, found...)
	}
	return v
}

// names gives an id's token, as far as a side tells it.
type names func(id uint32) (string, bool)

func namesOf(s Side) names {
	if l, ok := s.(local); ok {
		return l.e.Token
	}
	return func(uint32) (string, bool) { return "", false }
}

func idDifferences(c string, i int, a, b answer, nameA, nameB names) []kernels.Finding {
	want, got := a.ids[i], b.ids[i]
	if slices.Equal(got, want) {
		return nil
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	return []kernels.Finding{{
		Check: "ids", Where: fmt.Sprintf("%.80q, %s, position %d", c, asked[i].where, at), Got: shown(nameB, got, at), Want: shown(nameA, want, at),
		Hint: fmt.Sprintf("all of it: got %s, want %s; the two would give a model different inputs; do not measure with one what was made with the other", listed(got), listed(want)),
	}}
}

func textDifferences(c string, a, b answer) (found []kernels.Finding) {
	for i := range a.texts {
		same := a.texts[i] == b.texts[i]
		if same && a.errs[i] == nil && b.errs[i] == nil {
			continue
		}
		found = append(found, kernels.Finding{
			Check: "text", Where: fmt.Sprintf("%.80q, %s, special tokens skipped: %v", c, asked[i%2].where, i > 1),
			Got: result(b.texts[i], b.errs[i]), Want: result(a.texts[i], a.errs[i]),
		})
	}
	return found
}

func pieceDifferences(c string, a, b answer) []kernels.Finding {
	at := 0
	for at < min(len(a.pieces), len(b.pieces)) && bytes.Equal(a.pieces[at], b.pieces[at]) {
		at++
	}
	if at == len(a.pieces) && at == len(b.pieces) && a.bad == nil && b.bad == nil {
		return nil
	}
	piece := func(x answer) string {
		if x.bad == nil && at < len(x.pieces) {
			return fmt.Sprintf("%q", x.pieces[at])
		}
		return result(fmt.Sprintf("the end after %d pieces", len(x.pieces)), x.bad)
	}
	return []kernels.Finding{{Check: "pieces", Where: fmt.Sprintf("%.80q, piece %d", c, at), Got: piece(b), Want: piece(a)}}
}

func shown(name names, ids []uint32, at int) string {
	if at >= len(ids) {
		return fmt.Sprintf("the end after %d ids", len(ids))
	}
	if token, known := name(ids[at]); known {
		return fmt.Sprintf("%d (%q)", ids[at], token)
	}
	return fmt.Sprint(ids[at])
}

// listed shows ids, the first of many.
func listed(ids []uint32) string {
	const most = 40
	if len(ids) > most {
		return fmt.Sprintf("%v and %d more", ids[:most], len(ids)-most)
	}
	return fmt.Sprint(ids)
}

func result(s string, err error) string {
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%.200q", s)
}
