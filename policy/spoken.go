package policy

import (
	"time"

	vsa "github.com/in-toto/attestation/go/predicates/vsa/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/schemas"
)

// Spoken is when a word over an artifact (a summary or a review) was said, by
// its own Statement, and whether it speaks against the artifact. Other claims,
// and words without a time, give the zero time. What cannot be read speaks against.
func Spoken(c attest.Claim) (at time.Time, against bool) {
	switch c.PredicateType() {
	case attest.VSAType:
		var s vsa.VerificationSummary
		if protojson.Unmarshal(c.Predicate(), &s) != nil {
			return time.Time{}, true
		}
		if s.GetTimeVerified().IsValid() {
			at = s.GetTimeVerified().AsTime()
		}
		return at, s.GetVerificationResult() != "PASSED"
	case schemas.ReviewURI:
		r, err := Review(c)
		return r.Reviewed, err != nil || r.Verdict != schemas.Passed
	}
	return time.Time{}, false
}
