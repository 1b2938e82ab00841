package policy_test

import (
	"context"
	"testing"
	"time"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

// diverging is an evaluation that passed, with a divergence far beyond the gate.
func diverging(t *testing.T, w *policytest.World) *policytest.Step {
	bad := *w.Step(t, "q8-evaluated")
	bad.Name = "q8-evaluated-badly"
	var reports []*schemas.Report
	for _, r := range bad.Reports {
		c := *r
		c.Metrics = append([]schemas.Metric{}, r.Metrics...)
		for i := range c.Metrics {
			if c.Metrics[i].Name == "kl_mean" {
				c.Metrics[i].Value = 9
			}
		}
		reports = append(reports, &c)
	}
	bad.Reports = reports
	return &bad
}

func TestNobodyTakesBackANumberThatRefusesByHisOwnWord(t *testing.T) {
	w := newWorld(t)
	w.Add(t, "baseline", diverging(t, w))
	check(t, decide(t, w, w.Sign(t).Evidence, policy.Accept), schemas.Failed, want{"gates", schemas.Failed, "got 9 nats"})
	w.Add(t, "q8-evaluated-badly", policytest.Withdrawal("back", "q8-evaluated-badly", "I did not like it", policytest.Producer))
	check(t, decide(t, w, w.Sign(t).Evidence, policy.Accept), schemas.Failed,
		want{"gates", schemas.Failed, "got 9 nats"}, want{"withdrawn", schemas.Passed, "by his own word, and it refuses the artifact"})
	w.Add(t, "q8-evaluated-badly", policytest.Withdrawal("again", "q8-evaluated-badly", "the baseline was damaged", policytest.Gatekeeper))
	check(t, decide(t, w, w.Sign(t).Evidence, policy.Accept), schemas.Passed)
}

func TestCosigningDoesNotHelpToTakeANumberBack(t *testing.T) {
	w := newWorld(t)
	bad := diverging(t, w)
	bad.By = []string{policytest.Producer, policytest.Stranger}
	w.Add(t, "baseline", bad)
	w.Add(t, "q8-evaluated-badly", policytest.Withdrawal("back", "q8-evaluated-badly", "I did not like it", policytest.Stranger))
	check(t, decide(t, w, w.Sign(t).Evidence, policy.Accept), schemas.Failed, want{"gates", schemas.Failed, "got 9 nats"})
}

func TestAnAcceptanceInAnotherBundleIsNoNewWord(t *testing.T) {
	w := newWorld(t)
	w.Add(t, "", policytest.Summary("refused", "FAILED", nil))
	s := w.Sign(t)
	check(t, decide(t, w, s.Evidence, policy.Deliver), schemas.Failed)
	var bundle []byte
	for i, c := range s.Claims {
		if c.Bundle() == s.Claim(t, "q8-summary").Bundle() {
			bundle = append([]byte(" "), s.Bundles[i]...)
		}
	}
	again, err := w.Verifier.Verify(context.Background(), bundle, policytest.Now)
	if err != nil {
		t.Fatal(err)
	}
	s.Claims = append(s.Claims, again)
	s.Places[again.Bundle()] = policy.Place{Index: s.Size, Appended: policytest.Now.Add(time.Hour)}
	s.Size++
	check(t, decide(t, w, s.Evidence, policy.Deliver), schemas.Failed, want{"accepted", schemas.Failed, "the newest decision is FAILED"})
}

func TestARefusalIsNotOlderThanItSaysWhateverAnotherLogSays(t *testing.T) {
	w := newWorld(t)
	refused := policytest.Summary("refused", "FAILED", nil)
	refused.At = policytest.Now.Add(time.Minute)
	w.Add(t, "", refused)
	s := w.Sign(t)
	b := s.Claim(t, "refused").Bundle()
	p := s.Places[b]
	p.Imported, p.Appended = true, policytest.Now.Add(-time.Hour)
	s.Places[b] = p
	check(t, decide(t, w, s.Evidence, policy.Deliver), schemas.Failed, want{"accepted", schemas.Failed, "the newest decision is FAILED"})
}

func TestAnAcceptanceIsNotNewerThanItSaysWhereverItWasAppended(t *testing.T) {
	w := newWorld(t)
	old := policytest.Summary("elsewhere", "PASSED", nil)
	old.At = policytest.Now.Add(-time.Hour)
	refused := policytest.Summary("refused", "FAILED", nil)
	w.Add(t, "", refused, old)
	s := w.Sign(t)
	b := s.Claim(t, "elsewhere").Bundle()
	p := s.Places[b]
	p.Appended = policytest.Now.Add(time.Hour)
	s.Places[b] = p
	check(t, decide(t, w, s.Evidence, policy.Deliver), schemas.Failed, want{"accepted", schemas.Failed, "the newest decision is FAILED"})
}

// Who may not accept does not choose the bounds either.
func TestOnlyWhoMayAcceptNamesTheClass(t *testing.T) {
	w := newWorld(t)
	other := *w.Step(t, "q8-accepted")
	other.Name, other.By, other.With = "by-the-producer", []string{policytest.Producer}, map[string]any{"class": "4-bit"}
	w.Add(t, "", &other)
	if got, err := policy.ClassOf(w.Policy, w.Sign(t).Claims, policytest.Artifact.Digest); err != nil || got != policytest.Class {
		t.Errorf("got %q, %v, want %q", got, err, policytest.Class)
	}
}

// The threshold of signers.withdraw is applied as every other one.
func TestAWithdrawalNeedsAsManyAsThePolicySays(t *testing.T) {
	bad := func(t *testing.T) *policytest.World {
		w := newWorld(t)
		w.Policy.Signers["withdraw"] = schemas.SignerRule{Functionaries: []string{policytest.Gatekeeper, policytest.Second}, Threshold: 2}
		w.Add(t, "baseline", diverging(t, w))
		w.Add(t, "q8-evaluated-badly", policytest.Withdrawal("one", "q8-evaluated-badly", "the baseline was damaged", policytest.Gatekeeper))
		return w
	}
	w := bad(t)
	check(t, decide(t, w, w.Sign(t).Evidence, policy.Accept), schemas.Failed,
		want{"gates", schemas.Failed, "got 9 nats"}, want{"withdrawn", schemas.Passed, "got 1 of them: gatekeeper, want 2 of gatekeeper, second; until then it does not count"})
	w = bad(t)
	w.Add(t, "one", policytest.Withdrawal("once more", "q8-evaluated-badly", "the baseline was damaged, really", policytest.Gatekeeper))
	check(t, decide(t, w, w.Sign(t).Evidence, policy.Accept), schemas.Failed, want{"gates", schemas.Failed, "got 9 nats"})
	w = bad(t)
	w.Add(t, "one", policytest.Withdrawal("two", "q8-evaluated-badly", "I saw it too", policytest.Second))
	check(t, decide(t, w, w.Sign(t).Evidence, policy.Accept), schemas.Passed, want{"withdrawn", schemas.Passed, "I saw it too"})
}

// Nor does another log's early time hide a run that did not pass.
func TestAReloadThatFailedLaterIsTheNewestWhereverItLies(t *testing.T) {
	w := newWorld(t)
	bad := *w.Step(t, "q8-reloaded")
	bad.Name, bad.At = "broken", policytest.Now.Add(time.Minute)
	bad.Result.Verdict, bad.Result.ExitStatus, bad.Result.Failure = schemas.Failed, 1, "no answer"
	w.Add(t, "q8-delivered", &bad)
	check(t, decide(t, w, w.Sign(t).Evidence, policy.Redistribute), schemas.Failed, want{"reloaded", schemas.Failed, "no answer"})
	bad.At = policytest.Now.Add(-time.Minute)
	check(t, decide(t, w, w.Sign(t).Evidence, policy.Redistribute), schemas.Passed)
}
