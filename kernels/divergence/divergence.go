// Package divergence measures how far a candidate's next-token distributions
// are from the reference's, over the same texts and positions.
//
// Both sides give logits for every position of every text; row i predicts token
// i+1, so the rows that have a next token are scored: tokens − 1 of each text.
// With p the reference's and q the candidate's softmax over the declared
// [Domain], the metrics are, over all scored rows:
//
//   - kl_mean, kl_median, kl_p90, kl_p99, kl_max (nats): Σ p·ln(p/q) of a row.
//     A quantile is the smallest value that at least that share of rows does not exceed.
//   - top1_agreement (fraction): rows in which both sides' largest logit has the same id (the smaller id at a tie).
//   - logprob_diff_max, logprob_diff_rms (nats): |ln p − ln q| over all rows and ids.
//   - nll_reference, nll_candidate (nats/token): mean −ln of the next token's
//     probability; text_nll_reference and text_nll_candidate the same for each text.
//   - nll_ratio (fraction): nll_candidate / nll_reference − 1; 0.10 is ten percent.
//   - positions (positions): how many rows were scored.
//
// A row with a NaN or an infinity anywhere, on either side, also in columns
// outside the domain, is reported before anything is chosen or compared, and
// then nothing is measured. Sides that differ in domain, corpus, texts or
// width are not comparable: that is an error and not a number.
//
// Reference: Kullback and Leibler, On Information and Sufficiency (1951).
package divergence

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
)

// Names of the domains.
const (
	RealIDs   = "real-ids"   // ids below the tokenizer's size, renormalised
	FullWidth = "full-width" // every column of the logits
)

// Domain is the set of ids over which probabilities are normalised: those below IDs.
type Domain struct {
	Name string // [RealIDs] or [FullWidth]
	IDs  int
}

// Text is one scored text of one side.
type Text struct {
	Name string
	IDs  []uint32    // tokens
	Rows [][]float32 // logits: one row a token, all of one width
}

// Side is what one model gave over a corpus.
type Side struct {
	Domain Domain
	Corpus godigest.Digest // of the texts' file
	Engine string          // what computed the logits
	Texts  []Text
}

// ErrNotComparable is in the chain of every error that says why two sides are not measured against each other.
var ErrNotComparable = errors.New("not comparable")

// Compare measures candidate against reference. The reference's digest is that
// of the artifact that holds it; it becomes part of every metric's identity.
func Compare(ctx context.Context, reference, candidate Side, digest godigest.Digest) (kernels.Report, error) {
	r := Kernel().NewReport()
	findings, rows, err := examine(ctx, reference, candidate)
	if err != nil {
		return r, err
	}
	for _, f := range findings {
		r.Find(f)
	}
	if len(findings) == 0 {
		id := map[string]string{
			"domain": reference.Domain.Name, "ids": strconv.Itoa(reference.Domain.IDs),
			"corpus": reference.Corpus.String(), "engine": reference.Engine, "reference": digest.String(),
		}
		if candidate.Engine != reference.Engine {
			id["engine"] = reference.Engine + " against " + candidate.Engine
		}
		r.Metrics = metrics(rows, id)
	}
	if err := plant(ctx, &r.Controls, reference, candidate); err != nil {
		return r, err
	}
	return r, r.Finish()
}

// examine is the whole check, for the run and for its planted controls: either
// findings of rows that are not finite, or the scored rows, or why the sides are not comparable.
func examine(ctx context.Context, reference, candidate Side) ([]kernels.Finding, []row, error) {
	if err := comparable(reference, candidate); err != nil {
		return nil, nil, err
	}
	if findings := notFinite(reference, candidate); len(findings) > 0 {
		return findings, nil, nil
	}
	rows, err := measure(ctx, reference, candidate)
	return nil, rows, err
}

// comparable says why two sides are not.
func comparable(a, b Side) error {
	no := func(what string, got, want any) error {
		return fmt.Errorf("divergence: %s: candidate has %v, reference has %v: %w", what, got, want, ErrNotComparable)
	}
	switch {
	case a.Domain != b.Domain:
		return no("domain", b.Domain, a.Domain)
	case a.Domain.Name != RealIDs && a.Domain.Name != FullWidth:
		return fmt.Errorf("divergence: domain: got %q, want %q or %q", a.Domain.Name, RealIDs, FullWidth)
	case a.Domain.IDs < 2:
		return fmt.Errorf("divergence: domain: got %d ids, want at least 2", a.Domain.IDs)
	case a.Corpus.Validate() != nil:
		return fmt.Errorf("divergence: corpus: got digest %q, want algorithm:hex", a.Corpus)
	case a.Corpus != b.Corpus:
		return no("corpus", b.Corpus, a.Corpus)
	case len(a.Texts) == 0:
		return errors.New("divergence: got no texts, want at least one; nothing would be compared")
	case len(a.Texts) != len(b.Texts):
		return no("texts", len(b.Texts), len(a.Texts))
	}
	for i, t := range a.Texts {
		u := b.Texts[i]
		where := "text " + strconv.Quote(t.Name)
		switch {
		case t.Name != u.Name:
			return no(where+": name", strconv.Quote(u.Name), strconv.Quote(t.Name))
		case !slices.Equal(t.IDs, u.IDs):
			return no(where+": token ids", u.IDs, t.IDs)
		case len(t.IDs) < 2:
			return fmt.Errorf("divergence: %s: got %d tokens, want at least 2; no next token would be scored", where, len(t.IDs))
		case len(t.Rows) != len(t.IDs):
			return fmt.Errorf("divergence: %s: the reference has %d rows of logits, want one for each of %d tokens: %w", where, len(t.Rows), len(t.IDs), ErrNotComparable)
		case len(u.Rows) != len(u.IDs):
			return fmt.Errorf("divergence: %s: the candidate has %d rows of logits, want one for each of %d tokens: %w", where, len(u.Rows), len(u.IDs), ErrNotComparable)
		}
		for p := range t.Rows {
			width := len(t.Rows[p])
			switch {
			case len(u.Rows[p]) != width:
				return no(fmt.Sprintf("%s: width of row %d", where, p), len(u.Rows[p]), width)
			case width < a.Domain.IDs, a.Domain.Name == FullWidth && width != a.Domain.IDs:
				return fmt.Errorf("divergence: %s: row %d has %d logits, want %d for the domain %s: %w", where, p, width, a.Domain.IDs, a.Domain.Name, ErrNotComparable)
			case int(t.IDs[p]) >= a.Domain.IDs:
				return fmt.Errorf("divergence: %s: token %d: got id %d, want below the domain's %d: %w", where, p, t.IDs[p], a.Domain.IDs, ErrNotComparable)
			}
		}
	}
	return nil
}

// notFinite finds, in each row of either side, the first value that is not a number.
func notFinite(sides ...Side) []kernels.Finding {
	var found []kernels.Finding
	for i, side := range sides {
		for _, t := range side.Texts {
			for p, row := range t.Rows {
				for id, v := range row {
					if x := float64(v); math.IsNaN(x) || math.IsInf(x, 0) {
						found = append(found, kernels.Finding{
							Check: "finite", Where: fmt.Sprintf("%s, text %q, row %d, id %d", [...]string{"reference", "candidate"}[i], t.Name, p, id),
							Got: strconv.FormatFloat(x, 'g', -1, 64), Want: "a finite logit",
							Hint: "nothing is measured while a row is not finite; look at the weights or the engine that gave it",
						})
						break
					}
				}
			}
		}
	}
	return found
}
