package policy

import (
	"fmt"
	"slices"

	vsa "github.com/in-toto/attestation/go/predicates/vsa/v1"
	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/schemas"
)

// dropWithdrawn takes out the claims that a later entry withdrew. Those whom
// signers.withdraw names may withdraw any claim. Who signed a claim may take
// back his own word, but not bad news: else a failing report would vanish by
// the word of the one whom it speaks against.
func (in *inquiry) dropWithdrawn() {
	in.withdrawn = map[godigest.Digest]schemas.Withdrawal{}
	signers := map[godigest.Digest][]string{}
	said := map[godigest.Digest]attest.Claim{}
	for _, c := range in.ev.Claims {
		signers[c.PAE()] = append(signers[c.PAE()], c.Functionary())
		said[c.PAE()] = c
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
		own := slices.Contains(signers[w.Claim], c.Functionary()) && !in.badNews(said[w.Claim])
		if own || slices.Contains(in.policy.Signers["withdraw"].Functionaries, c.Functionary()) {
			in.withdrawn[w.Claim] = w
		}
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
		in.notes = append(in.notes, Reason{Rule: "withdrawn", What: "claim of " + c.PredicateType(), Verdict: schemas.Passed, Got: got, Want: "not looked at", Claim: c.PAE()})
	}
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

// Withdrawal reads a withdrawal claim; any other claim is an error.
func Withdrawal(c attest.Claim) (schemas.Withdrawal, error) {
	var w schemas.Withdrawal
	if c.PredicateType() != attest.WithdrawalType {
		return w, fmt.Errorf("claim %s: predicate type %s, want %s", c.PAE(), c.PredicateType(), attest.WithdrawalType)
	}
	err := schemas.DecodeJSON(schemas.WithdrawalURI, c.Predicate(), &w)
	return w, err
}
