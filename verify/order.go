package verify

import (
	"slices"
	"time"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	vsa "github.com/in-toto/attestation/go/predicates/vsa/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weighmaster/weighmaster/attest"
)

// bySignedTime orders claims that no log ordered. Whoever hands bundles over can
// put them in any order, and the newest word counts: so the order is the one
// that the signers signed. A claim without a time counts as the newest, and so,
// of one moment, does a summary that is not PASSED: bad news is never hidden.
func bySignedTime(claims []attest.Claim) []attest.Claim {
	type dated struct {
		attest.Claim
		at   time.Time
		last int // among those of one moment
	}
	list := make([]dated, len(claims))
	for i, c := range claims {
		at, good := signedTime(c)
		list[i] = dated{Claim: c, at: at}
		if !good {
			list[i].last = 1
		}
	}
	slices.SortStableFunc(list, func(a, b dated) int {
		if a.at.IsZero() != b.at.IsZero() {
			if b.at.IsZero() {
				return -1
			}
			return 1
		}
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return a.last - b.last
	})
	ordered := make([]attest.Claim, len(list))
	for i, d := range list {
		ordered[i] = d.Claim
	}
	return ordered
}

// signedTime is the moment that a Statement says it is of, zero where it says
// none, and whether it is anything but a refusal.
func signedTime(c attest.Claim) (at time.Time, good bool) {
	switch c.PredicateType() {
	case attest.ProvenanceType:
		var p provenance.Provenance
		if protojson.Unmarshal(c.Predicate(), &p) == nil {
			if finished := p.GetRunDetails().GetMetadata().GetFinishedOn(); finished.IsValid() {
				return finished.AsTime(), true
			}
		}
	case attest.VSAType:
		var s vsa.VerificationSummary
		if protojson.Unmarshal(c.Predicate(), &s) == nil && s.GetTimeVerified().IsValid() {
			return s.GetTimeVerified().AsTime(), s.GetVerificationResult() == "PASSED"
		}
	}
	return time.Time{}, true
}
