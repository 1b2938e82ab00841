package main

import (
	"context"
	"slices"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages"
)

// standing is what was taken back in a ledger, and what falls with it.
type standing struct {
	taken   map[godigest.Digest]policy.Taken // by the claim's PAE digest
	fallen  []policy.Fallen
	entries map[godigest.Digest]ledger.LeafIndex // first entry of each claim, by PAE digest
}

// takenBack is a claim that a later entry takes back.
type takenBack struct {
	Entry     ledger.LeafIndex `json:"entry"`
	Claim     godigest.Digest  `json:"claim"`
	By        ledger.LeafIndex `json:"by"` // entry of the withdrawal
	Signer    string           `json:"signer"`
	Reason    string           `json:"reason"`
	Successor godigest.Digest  `json:"successor,omitempty"`
}

// fallenDecision is a decision that rests on such a claim.
type fallenDecision struct {
	Entry     ledger.LeafIndex  `json:"entry"`
	Claim     godigest.Digest   `json:"claim"`
	Decision  string            `json:"decision"`
	Artifacts []string          `json:"artifacts"`
	Through   []godigest.Digest `json:"through"` // up to the claim that was taken back
	Reason    string            `json:"reason"`
	Successor godigest.Digest   `json:"successor,omitempty"`
}

// standing looks at claims in the order in which they were said; at tells where
// each lies, by bundle.
func (p *project) standing(ctx context.Context, claims []attest.Claim, at map[godigest.Digest]policy.Place) (standing, error) {
	s := standing{entries: map[godigest.Digest]ledger.LeafIndex{}}
	if !slices.ContainsFunc(claims, func(c attest.Claim) bool { return c.PredicateType() == attest.WithdrawalType }) {
		return s, nil
	}
	doc, ev, err := p.questionable(ctx, claims)
	if err != nil {
		return s, err
	}
	for _, c := range claims {
		if _, seen := s.entries[c.PAE()]; !seen {
			s.entries[c.PAE()] = ledger.LeafIndex(at[c.Bundle()].Index)
		}
	}
	s.taken, s.fallen, err = policy.Withdrawn(doc, ev)
	return s, err
}

// questionable is the policy and the evidence that it is asked over.
func (p *project) questionable(ctx context.Context, claims []attest.Claim) (schemas.Policy, policy.Evidence, error) {
	doc, _, err := p.readPolicy()
	if err != nil {
		return doc, policy.Evidence{}, err
	}
	ev, err := stages.PolicyEvidence(ctx, claims, evidenceStore{p.objects})
	return doc, ev, err
}

// back lists what was taken back, in the order of the entries.
func (s standing) back() []takenBack {
	list := []takenBack{}
	for _, t := range s.taken {
		list = append(list, takenBack{s.entries[t.Claim], t.Claim, s.entries[t.By], t.Functionary, t.Reason, t.Successor})
	}
	slices.SortFunc(list, func(a, b takenBack) int { return int(a.Entry - b.Entry) })
	return list
}

// against tells why a claim no longer counts, or nothing.
func (s standing) against(claim godigest.Digest) string {
	if t, gone := s.taken[claim]; gone {
		return "withdrawn: " + t.Reason
	}
	for _, f := range s.fallen {
		if f.Claim == claim {
			return f.String()
		}
	}
	return ""
}

// decisions lists those that fell, all or those that fell with one claim.
func (s standing) decisions(with godigest.Digest) []fallenDecision {
	list := []fallenDecision{}
	for _, f := range s.fallen {
		if with != "" && f.Through[len(f.Through)-1] != with {
			continue
		}
		d := fallenDecision{Entry: s.entries[f.Claim], Claim: f.Claim, Decision: f.What, Artifacts: []string{}, Through: f.Through, Reason: f.Reason, Successor: f.Successor}
		for _, a := range f.Artifacts {
			d.Artifacts = append(d.Artifacts, a.Name)
		}
		list = append(list, d)
	}
	return list
}

func (t takenBack) print(a *app) {
	a.printf("withdrawn: entry %d, by %s with entry %d: %s\n", t.Entry, t.Signer, t.By, t.Reason)
	if t.Successor != "" {
		a.printf("    use instead: %s\n", t.Successor)
	}
}

func (d fallenDecision) print(a *app) {
	a.printf("no longer counts: entry %d, %s over %s\n", d.Entry, strings.TrimPrefix(d.Decision, schemas.BaseURI), strings.Join(d.Artifacts, ", "))
	for i, pae := range d.Through {
		what := "which rests on"
		if i == 0 {
			what = "it rests on"
		}
		a.printf("    %s claim %s\n", what, pae)
	}
	a.printf("    withdrawn: %s; decide anew without it\n", d.Reason)
}
