package policy_test

import (
	"strings"
	"testing"

	vsa "github.com/in-toto/attestation/go/predicates/vsa/v1"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

// Whose signature counts for nothing under a claim cannot sign it too and then
// take it back: the newest decision would be gone, and an older one count again.
func TestACosignerWhoseWordCountsForNothingTakesNothingBack(t *testing.T) {
	w := newWorld(t)
	other := policytest.Summary("under-another-policy", "PASSED", func(p *vsa.VerificationSummary) {
		p.Policy.Digest = map[string]string{"sha256": strings.Repeat("ab", 32)}
	})
	other.By = []string{policytest.Gatekeeper, policytest.Producer}
	w.Add(t, "", other)
	check(t, decide(t, w, w.Sign(t).Evidence, policy.Deliver), schemas.Failed, want{"accepted", schemas.Failed, "decided under policy sha256:abab"})
	w.Add(t, "", policytest.Withdrawal("back", "under-another-policy", "I signed it too", policytest.Producer))
	s := w.Sign(t)
	check(t, decide(t, w, s.Evidence, policy.Deliver), schemas.Failed, want{"accepted", schemas.Failed, "decided under policy sha256:abab"})
	err := policy.MayWithdraw(w.Policy, s.Evidence, policytest.Producer, s.Claim(t, "under-another-policy").PAE())
	if err == nil || !strings.Contains(err.Error(), "whose signature counts for nothing there") {
		t.Errorf("got %v, want that it is another's word", err)
	}
	w.Add(t, "", policytest.Withdrawal("decided", "under-another-policy", "the wrong policy", policytest.Gatekeeper))
	check(t, decide(t, w, w.Sign(t).Evidence, policy.Deliver), schemas.Passed)
}
