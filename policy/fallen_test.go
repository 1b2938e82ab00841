package policy_test

import (
	"strings"
	"testing"

	vsa "github.com/in-toto/attestation/go/predicates/vsa/v1"
	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

// onDecision is an acceptance that rests on the decision before it alone.
func onDecision(name string) *policytest.Step {
	return policytest.Summary(name, "PASSED", func(p *vsa.VerificationSummary) {
		p.InputAttestations = p.InputAttestations[len(p.InputAttestations)-1:]
	})
}

// measuredAgain takes the evaluation back and has it made again.
func measuredAgain(t *testing.T, w *policytest.World) {
	again := *w.Step(t, "q8-evaluated")
	again.Name = "q8-evaluated-again"
	w.Add(t, "", &again, policytest.Supersession("back", "q8-evaluated", "measured beside another server", policytest.Producer, godigest.FromString("better")))
}

func fallen(t *testing.T, w *policytest.World, s *policytest.Signed) map[string]policy.Fallen {
	t.Helper()
	_, list, err := policy.Withdrawn(w.Policy, s.Evidence)
	if err != nil {
		t.Fatal(err)
	}
	byStep := map[string]policy.Fallen{}
	for _, f := range list {
		for _, step := range w.Steps {
			if s.Claim(t, step.Name).PAE() == f.Claim {
				byStep[step.Name] = f
			}
		}
	}
	if len(byStep) != len(list) {
		t.Fatalf("fallen decisions %v, each of one step", list)
	}
	return byStep
}

// TestDecisionsFall names every decision that rests on a withdrawn claim, also
// by way of other decisions, and no other.
func TestDecisionsFall(t *testing.T) {
	w := newWorld(t)
	w.Add(t, "q8-summary", onDecision("second"), onDecision("third"))
	s := w.Sign(t)
	if got := fallen(t, w, s); len(got) != 0 {
		t.Fatalf("nothing is withdrawn, and %v fell", got)
	}
	check(t, decide(t, w, s.Evidence, policy.Deliver), schemas.Passed)

	measuredAgain(t, w)
	w.Add(t, "", policytest.Summary("anew", "PASSED", nil))
	s = w.Sign(t)
	got := fallen(t, w, s)
	pae := func(step string) godigest.Digest { return s.Claim(t, step).PAE() }
	for step, through := range map[string][]godigest.Digest{
		"q8-summary": {pae("q8-evaluated")},
		"second":     {pae("q8-summary"), pae("q8-evaluated")},
		"third":      {pae("second"), pae("q8-summary"), pae("q8-evaluated")},
		"anew":       {pae("q8-evaluated")}, // policytest lets it rest on everything before it
	} {
		f, ok := got[step]
		if !ok || len(f.Through) != len(through) {
			t.Errorf("%s: %+v, want it to fall through %v", step, f, through)
			continue
		}
		for i := range through {
			if f.Through[i] != through[i] {
				t.Errorf("%s: through %v, want %v", step, f.Through, through)
			}
		}
		if f.Reason != "measured beside another server" || f.Successor != godigest.FromString("better") || f.Artifacts[0].Digest != policytest.Artifact.Digest {
			t.Errorf("%s: %+v, want the withdrawal's reason and successor, and the artifact", step, f)
		}
	}
	if len(got) != 4 {
		t.Errorf("%d decisions fell, want 4: %v", len(got), got)
	}
}

func TestAFallenDecisionIsNotEnough(t *testing.T) {
	failed := schemas.Failed
	refusals(t, policy.Deliver, []change{
		{"a decision that rests on a decision that rests on what was withdrawn", func(t *testing.T, w *policytest.World) {
			w.Add(t, "q8-summary", onDecision("second"))
			measuredAgain(t, w)
		}, failed, []want{
			{"accepted", failed, ", which rests on claim "},
			{"accepted", failed, "withdrawn: measured beside another server"},
			{"withdrawn", schemas.Passed, "decision " + policy.DecisionURI("example-release", policy.Accept, policytest.Class)},
		}},
	})
	t.Run("a completion that lists a fallen decision", func(t *testing.T) {
		w := newWorld(t)
		measuredAgain(t, w)
		d := decide(t, w, w.Sign(t).Evidence, policy.Redistribute)
		check(t, d, failed, want{"accepted", failed, "withdrawn: measured beside another server"})
	})
	t.Run("decided anew without it", func(t *testing.T) {
		w := newWorld(t)
		again := *w.Step(t, "q8-evaluated")
		again.Name = "q8-evaluated-again"
		w.Add(t, "", &again, policytest.Withdrawal("back", "q8-evaluated", "measured beside another server", policytest.Producer))
		anew := policytest.Summary("anew", "PASSED", nil)
		w.Add(t, "", anew)
		s := w.Sign(t)
		gone := map[string]bool{s.Claim(t, "q8-evaluated").Bundle().Encoded(): true, s.Claim(t, "q8-summary").Bundle().Encoded(): true}
		anew.State = policytest.Summary("anew", "PASSED", func(p *vsa.VerificationSummary) {
			var kept []*vsa.VerificationSummary_InputAttestation
			for _, a := range p.InputAttestations {
				if !gone[a.GetDigest()["sha256"]] {
					kept = append(kept, a)
				}
			}
			p.InputAttestations = kept
		}).State
		check(t, decide(t, w, w.Sign(t).Evidence, policy.Deliver), schemas.Passed)
	})
}

// TestWhoMayWithdraw holds the command's question and the decision's answer
// against each other.
func TestWhoMayWithdraw(t *testing.T) {
	for _, c := range []struct {
		name, step, by string
		refused        string // empty: it counts
	}{
		{"one's own claim", "q8-evaluated", policytest.Producer, ""},
		{"any claim, by whom the policy names", "q8-evaluated", policytest.Gatekeeper, ""},
		{"another's claim", "q8-summary", policytest.Producer, "may not take back claim"},
		{"another's claim, by a stranger to the policy", "q8-evaluated", policytest.Second, "may not take back claim"},
		{"one's own bad news", "broken", policytest.Producer, "nobody takes back bad news by his own word"},
		{"bad news, by whom the policy names", "broken", policytest.Gatekeeper, ""},
		{"one's own withdrawal", "earlier", policytest.Producer, "a withdrawal is not taken back"},
		{"a withdrawal, by whom the policy names", "earlier", policytest.Gatekeeper, "a withdrawal is not taken back"},
		{"what is withdrawn already", "source-inspected", policytest.Gatekeeper, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			bad := *w.Step(t, "q8-evaluated")
			bad.Name, bad.Result.Verdict, bad.Result.ExitStatus, bad.Result.Failure = "broken", schemas.Failed, 1, "out of memory"
			w.Add(t, "baseline", &bad)
			w.Add(t, "", policytest.Withdrawal("earlier", "source-inspected", "an earlier reason", policytest.Producer))
			w.Add(t, "", policytest.Supersession("w", c.step, "the newest reason", c.by, godigest.FromString("successor")))
			s := w.Sign(t)
			pae := s.Claim(t, c.step).PAE()
			err := policy.MayWithdraw(w.Policy, s.Evidence, c.by, pae)
			if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
				t.Errorf("may withdraw: %v, want %q", err, c.refused)
			}
			taken, _, err := policy.Withdrawn(w.Policy, s.Evidence)
			if err != nil {
				t.Fatal(err)
			}
			got, counts := taken[pae]
			if counts != (c.refused == "") {
				t.Errorf("the withdrawal counts: %v", counts)
			}
			if counts && (got.By != s.Claim(t, "w").PAE() || got.Reason != "the newest reason" || got.Functionary != c.by || got.Successor != godigest.FromString("successor")) {
				t.Errorf("taken back: %+v, want the newest withdrawal", got)
			}
			if _, stands := taken[s.Claim(t, "source-inspected").PAE()]; !stands {
				t.Error("the earlier withdrawal no longer counts")
			}
		})
	}
	w := newWorld(t)
	s := w.Sign(t)
	if err := policy.MayWithdraw(w.Policy, s.Evidence, policytest.Gatekeeper, godigest.FromString("nothing")); err == nil || !strings.Contains(err.Error(), "there is no such claim") {
		t.Errorf("a claim that is not there: %v", err)
	}
}
