package policy_test

import (
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

func newWorld(t testing.TB) *policytest.World { t.Helper(); return policytest.New(t, fixtures.Policy) }

func question(w *policytest.World, decision string) policy.Question {
	return policy.Question{Decision: decision, Class: policytest.Class, Artifact: policytest.Artifact.Digest, Policy: w.PolicyDigest(), At: policytest.Now}
}

func decide(t testing.TB, w *policytest.World, ev policy.Evidence, decision string) policy.Decision {
	t.Helper()
	d, err := policy.Decide(w.Policy, ev, question(w, decision))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// want is one reason that a decision must give.
type want struct {
	rule    string
	verdict schemas.Verdict
	words   string // in what, got or want of the reason
}

func check(t *testing.T, d policy.Decision, verdict schemas.Verdict, wants ...want) {
	t.Helper()
	if d.Verdict != verdict {
		t.Errorf("got the verdict %s, want %s", d.Verdict, verdict)
	}
	for _, w := range wants {
		found := false
		for _, r := range d.Reasons {
			found = found || (r.Rule == w.rule && r.Verdict == w.verdict && strings.Contains(r.String(), w.words))
		}
		if !found {
			t.Errorf("no reason of rule %s, %s, with the words %q", w.rule, w.verdict, w.words)
		}
	}
	if t.Failed() {
		for _, r := range d.Failures() {
			t.Log(r)
		}
	}
}

func TestACompleteChainPassesEveryDecision(t *testing.T) {
	w := newWorld(t)
	ev := w.Sign(t).Evidence
	for decision, claims := range map[string]int{policy.Accept: 7, policy.Deliver: 8, policy.Redistribute: 11} {
		d := decide(t, w, ev, decision)
		check(t, d, schemas.Passed)
		if len(d.Claims) != claims {
			t.Errorf("%s rests on %d claims, want %d", decision, len(d.Claims), claims)
		}
		rules := map[string]bool{}
		for _, r := range d.Reasons {
			rules[r.Rule] = true
		}
		if len(rules) != len(w.Policy.Decisions[decision].Requires) {
			t.Errorf("%s gives reasons of %d rules, want %d", decision, len(rules), len(w.Policy.Decisions[decision].Requires))
		}
	}
}
