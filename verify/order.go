package verify

import (
	"fmt"
	"slices"
	"time"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// bySignedTime orders claims that no log ordered. Whoever hands bundles over can
// put them in any order, and the newest word counts: so the order is the one
// that the signers signed. Of one moment the word that speaks against the
// artifact is the last, so that bad news is never hidden. Claims that have no
// time of their own (withdrawals, completions) come last, as they came.
func bySignedTime(claims []attest.Claim) []attest.Claim {
	type dated struct {
		attest.Claim
		at   time.Time
		last int // among those of one moment
	}
	list := make([]dated, len(claims))
	for i, c := range claims {
		at, against := signedTime(c)
		list[i] = dated{Claim: c, at: at}
		if against {
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
// none, and whether it speaks against the artifact.
func signedTime(c attest.Claim) (at time.Time, against bool) {
	if c.PredicateType() != attest.ProvenanceType {
		return policy.Spoken(c)
	}
	var p provenance.Provenance
	if protojson.Unmarshal(c.Predicate(), &p) == nil {
		if finished := p.GetRunDetails().GetMetadata().GetFinishedOn(); finished.IsValid() {
			return finished.AsTime(), false
		}
	}
	return time.Time{}, false
}

// undated says why a claim has no place among others that no log ordered: it
// must say when it was made, not later than now, or else it could pass for the newest.
func (s *state) undated(c attest.Claim) error {
	switch c.PredicateType() {
	case attest.ProvenanceType, attest.VSAType, schemas.ReviewURI:
	default:
		return nil
	}
	switch at, _ := signedTime(c); {
	case at.IsZero():
		return fmt.Errorf("a claim of %s that does not say when it was made", c.PredicateType())
	case at.After(s.v.At):
		return fmt.Errorf("a claim of %s that was made at %s, which is after now", c.PredicateType(), at.UTC().Format(time.RFC3339))
	}
	return nil
}
