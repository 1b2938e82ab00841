package policy_test

import (
	"slices"
	"testing"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// Each reason says what was looked at, the value, the bound and the verdict, and
// names the claim that it came from, which is one of the evidence. Only what is
// about no single claim names none.
func TestEveryReasonNamesItsClaim(t *testing.T) {
	none := []string{"claims that the decision rests on", "how much of the log was looked at", "witnesses of the log's checkpoint", "age of the witnesses' cosignatures"}
	list := worlds()
	for i, w := range list {
		for _, decision := range decisions {
			d := decide(t, w.World, w.ev, decision)
			for _, r := range d.Reasons {
				if r.Rule == "" || r.What == "" || r.Got == "" || r.Want == "" || r.Verdict == "" {
					t.Errorf("world %d: an incomplete reason: %+v", i, r)
				}
				if slices.Contains(none, r.What) {
					continue
				}
				c := slices.IndexFunc(w.ev.Claims, func(c attest.Claim) bool { return c.PAE() == r.Claim })
				if c < 0 && r.Verdict == schemas.Passed {
					t.Errorf("world %d, %s: no claim of the evidence stands behind %v (%q)", i, decision, r, r.Claim)
				}
			}
		}
	}
	if d := decide(t, list[0].World, list[0].ev, policy.Redistribute); len(d.Reasons) < 50 {
		t.Errorf("only %d reasons; the test looks at too little", len(d.Reasons))
	}
}
