package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	vsa "github.com/in-toto/attestation/go/predicates/vsa/v1"
	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/schemas"
)

// Taken is a claim that was taken back by somebody who may.
type Taken struct {
	Claim       godigest.Digest // PAE digest
	By          godigest.Digest // PAE digest of the withdrawal
	Functionary string          // who signed the withdrawal
	schemas.Withdrawal
}

// Withdrawn finds the claims that count as taken back under a policy, by PAE
// digest, and the decisions that fall with them.
//
// Those whom signers.withdraw names may withdraw any claim, as many together as
// its threshold says. Who signed a claim
// may take back his own word (not another's, by signing it too), but not bad news: else a failing report would
// vanish by the word of the one whom it speaks against. A withdrawal is never
// taken back: the claim is made again instead. Of several withdrawals of a
// claim the newest counts.
func Withdrawn(p schemas.Policy, ev Evidence) (map[godigest.Digest]Taken, []Fallen, error) {
	ev, err := ev.ordered()
	if err != nil {
		return nil, nil, err
	}
	in := &inquiry{policy: p, ev: ev}
	in.dropWithdrawn()
	return in.taken, in.fallenList(), nil
}

// MayWithdraw tells why a functionary may not withdraw a claim, or nil.
func MayWithdraw(p schemas.Policy, ev Evidence, functionary string, claim godigest.Digest) error {
	in := &inquiry{policy: p, ev: ev}
	return in.mayWithdraw(functionary, in.said(claim))
}

// said gives the claims with a PAE digest: one Statement by one or more signers.
func (in *inquiry) said(pae godigest.Digest) []attest.Claim {
	var list []attest.Claim
	for _, c := range in.ev.Claims {
		if c.PAE() == pae {
			list = append(list, c)
		}
	}
	return list
}

func (in *inquiry) mayWithdraw(functionary string, said []attest.Claim) error {
	if len(said) == 0 {
		return errors.New("there is no such claim")
	}
	if said[0].PredicateType() == attest.WithdrawalType {
		return fmt.Errorf("claim %s is a withdrawal, and a withdrawal is not taken back; make the withdrawn claim again instead", said[0].PAE())
	}
	rule := in.policy.Signers["withdraw"].Functionaries
	if slices.Contains(rule, functionary) {
		return nil
	}
	var names []string
	for _, c := range said {
		names = append(names, c.Functionary())
	}
	want := fmt.Sprintf("one whom the policy's signers.withdraw names (%s)", strings.Join(rule, ", "))
	switch {
	case !slices.Contains(names, functionary):
		return fmt.Errorf("%s may not take back claim %s, which %s signed; want its signer or %s", functionary, said[0].PAE(), strings.Join(names, " and "), want)
	case !in.counts(functionary, said[0]) && slices.ContainsFunc(names, func(n string) bool { return n != functionary }):
		return fmt.Errorf("%s signed claim %s beside %s, and is one whose signature counts for nothing there; want one whose does or %s", functionary, said[0].PAE(), strings.Join(names, " and "), want)
	case in.badNews(said[0]):
		return fmt.Errorf("%s signed claim %s, and it speaks against something: nobody takes back bad news by his own word; want %s", functionary, said[0].PAE(), want)
	}
	return nil
}

// counts tells whether the policy lets somebody sign claims of this kind.
func (in *inquiry) counts(functionary string, c attest.Claim) bool {
	var names []string
	switch c.PredicateType() {
	case attest.ProvenanceType:
		if run, err := readRun(c); err == nil {
			names = in.policy.Signers[run.Uses].Functionaries
		}
	case attest.VSAType:
		for _, rule := range in.policy.Decisions {
			names = append(names, rule.Functionaries...)
		}
	case attest.CompletionType:
		names = in.policy.Signers["complete"].Functionaries
	case schemas.ReviewURI:
		if in.policy.Reviewers != nil {
			names = in.policy.Reviewers.Functionaries
		}
	default:
		return true // the policy reads no other kind
	}
	return slices.Contains(names, functionary)
}

func signedBy(said []attest.Claim, functionary string) bool {
	return slices.ContainsFunc(said, func(c attest.Claim) bool { return c.Functionary() == functionary })
}

// dropWithdrawn takes out the claims that were taken back, see [Withdrawn].
func (in *inquiry) dropWithdrawn() {
	in.withdrawn, in.taken = map[godigest.Digest]schemas.Withdrawal{}, map[godigest.Digest]Taken{}
	in.dropped = map[godigest.Digest]bool{}
	own, others := map[godigest.Digest]bool{}, map[godigest.Digest]bool{} // taken back by whose word it stays, and by whose it goes
	rule, votes := in.policy.Signers["withdraw"], map[godigest.Digest][]attest.Claim{}
	byPAE := map[godigest.Digest][]attest.Claim{}
	for _, c := range in.ev.Claims {
		byPAE[c.PAE()] = append(byPAE[c.PAE()], c)
	}
	for _, c := range in.ev.Claims {
		if c.PredicateType() != attest.WithdrawalType {
			continue
		}
		w, err := Withdrawal(c)
		if err != nil {
			in.notes = append(in.notes, Reason{Rule: "withdrawn", What: "withdrawal " + c.PAE().String(), Verdict: schemas.Undecided, Got: err.Error(), Want: "a readable withdrawal", Claim: c.PAE()})
			continue
		}
		said := byPAE[w.Claim]
		if in.mayWithdraw(c.Functionary(), said) != nil {
			continue
		}
		enough := Reason{}
		if slices.Contains(rule.Functionaries, c.Functionary()) {
			votes[w.Claim] = append(votes[w.Claim], c)
			enough = countSigners("withdrawal of claim "+w.Claim.String(), rule, votes[w.Claim])
		}
		switch {
		case enough.Verdict == schemas.Passed:
			others[w.Claim] = true
		case !signedBy(said, c.Functionary()) || in.badNews(said[0]): // one of those who may, and not enough of them yet
			enough.Rule, enough.Verdict, enough.Claim = "withdrawn", schemas.Passed, c.PAE()
			enough.Want += "; until then it does not count"
			in.notes = append(in.notes, enough)
			continue
		case in.refuses(said[0]):
			own[w.Claim] = true
		default:
			others[w.Claim] = true
		}
		in.withdrawn[w.Claim] = w
		in.taken[w.Claim] = Taken{Claim: w.Claim, By: c.PAE(), Functionary: c.Functionary(), Withdrawal: w}
	}
	for _, c := range in.ev.Claims {
		w, gone := in.withdrawn[c.PAE()]
		if !gone {
			in.claims = append(in.claims, c)
			continue
		}
		got := "withdrawn: " + w.Reason
		if w.Successor != "" {
			got += fmt.Sprintf("; successor %s", w.Successor)
		}
		want := "not looked at"
		if own[c.PAE()] && !others[c.PAE()] {
			in.claims = append(in.claims, c)
			got, want = got+"; by his own word, and it refuses the artifact", "looked at all the same"
		} else {
			in.dropped[c.PAE()] = true
		}
		in.notes = append(in.notes, Reason{Rule: "withdrawn", What: "claim of " + c.PredicateType(), Verdict: schemas.Passed, Got: got, Want: want, Claim: c.PAE()})
	}
	in.findFallen()
}

// badNews tells whether a claim speaks against something: a run or a report
// that did not pass or cannot be read, or a decision that is not PASSED.
// Without evidence objects only [ClassOf] asks, and its answer decides nothing.
func (in *inquiry) badNews(c attest.Claim) bool {
	switch c.PredicateType() {
	case attest.VSAType:
		var s vsa.VerificationSummary
		return protojson.Unmarshal(c.Predicate(), &s) != nil || s.GetVerificationResult() != "PASSED"
	case schemas.ReviewURI:
		r, err := Review(c)
		return err != nil || r.Verdict != schemas.Passed
	case attest.ProvenanceType:
		if in.ev.Objects == nil {
			return false
		}
		run, err := readRun(c)
		if err != nil {
			return true
		}
		res, err := run.Result(in.ev.Objects)
		if err != nil || res.Verdict != schemas.Passed || res.ExitStatus != 0 {
			return true
		}
		reports, err := run.Reports(in.ev.Objects)
		return err != nil || slices.ContainsFunc(reports, func(r schemas.Report) bool { return r.Verdict != schemas.Passed })
	}
	return false
}

// refuses tells whether a run that passed brings numbers for which the class
// that is asked about refuses the artifact. Its signer may take it back, and
// decisions that rest on it fall; the numbers stay, or whoever measured badly
// would measure until it suits.
func (in *inquiry) refuses(c attest.Claim) bool {
	if c.PredicateType() != attest.ProvenanceType {
		return false
	}
	run, err := readRun(c)
	if err != nil {
		return true
	}
	alone := &inquiry{policy: in.policy, class: in.class, ev: in.ev, q: in.q, checks: []check{{runs: []*Run{run}}}}
	for _, rule := range []ruleFunc{ruleGates, ruleCoverage, ruleTensorTypes} {
		if slices.ContainsFunc(rule(alone), func(r Reason) bool { return r.Claim != "" && r.Verdict == schemas.Failed }) {
			return true
		}
	}
	reports, err := run.Reports(in.ev.Objects)
	return err != nil || slices.ContainsFunc(reports, func(r schemas.Report) bool { return len(r.Findings) > 0 })
}

// Withdrawal reads a withdrawal claim; any other claim is an error.
func Withdrawal(c attest.Claim) (schemas.Withdrawal, error) {
	var w schemas.Withdrawal
	if c.PredicateType() != attest.WithdrawalType {
		return w, fmt.Errorf("claim %s: predicate type %s, want %s", c.PAE(), c.PredicateType(), attest.WithdrawalType)
	}
	err := schemas.DecodeJSON(schemas.WithdrawalURI, c.Predicate(), &w)
	return w, err
}
