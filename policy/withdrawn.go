package policy

import (
	"fmt"
	"slices"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/schemas"
)

// dropWithdrawn takes out the claims that a later entry withdrew. A claim may
// be withdrawn by a functionary who signed it, or by one that signers.withdraw names.
func (in *inquiry) dropWithdrawn() {
	in.withdrawn = map[godigest.Digest]schemas.Withdrawal{}
	signers := map[godigest.Digest][]string{}
	for _, c := range in.ev.Claims {
		signers[c.PAE()] = append(signers[c.PAE()], c.Functionary())
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
		if slices.Contains(signers[w.Claim], c.Functionary()) || slices.Contains(in.policy.Signers["withdraw"].Functionaries, c.Functionary()) {
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

// Withdrawal reads a withdrawal claim; any other claim is an error.
func Withdrawal(c attest.Claim) (schemas.Withdrawal, error) {
	var w schemas.Withdrawal
	if c.PredicateType() != attest.WithdrawalType {
		return w, fmt.Errorf("claim %s: predicate type %s, want %s", c.PAE(), c.PredicateType(), attest.WithdrawalType)
	}
	err := schemas.DecodeJSON(schemas.WithdrawalURI, c.Predicate(), &w)
	return w, err
}
