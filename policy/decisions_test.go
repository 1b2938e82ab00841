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

// summary replaces the world's acceptance by one with a change.
func summary(result string, do func(*vsa.VerificationSummary)) func(*testing.T, *policytest.World) {
	return func(t *testing.T, w *policytest.World) {
		*w.Step(t, "q8-summary") = *policytest.Summary("q8-summary", result, do)
	}
}

func sha(s string) map[string]string {
	return map[string]string{"sha256": godigest.FromString(s).Encoded()}
}

func TestASummaryIsAClaimLikeAnyOther(t *testing.T) {
	failed, undecided := schemas.Failed, schemas.Undecided
	by := func(people ...string) func(*testing.T, *policytest.World) {
		return func(t *testing.T, w *policytest.World) { w.Step(t, "q8-summary").By = people }
	}
	refusals(t, policy.Deliver, []change{
		{"signed by the producer", by(policytest.Producer), undecided, []want{{"accepted", undecided, "no summary by gatekeeper"}}},
		{"signed by somebody the policy does not name", by(policytest.Stranger), undecided, []want{{"accepted", undecided, "no summary by gatekeeper"}}},
		{"under another policy", summary("PASSED", func(s *vsa.VerificationSummary) { s.Policy.Digest = sha("an easier policy") }),
			failed, []want{{"accepted", failed, "decided under policy " + godigest.FromString("an easier policy").String()}}},
		{"of another class", summary("PASSED", func(s *vsa.VerificationSummary) {
			s.Policy.Uri = policy.DecisionURI("example-release", policy.Accept, "4-bit")
		}), failed, []want{{"accepted", failed, "#accept/4-bit"}}},
		{"of another policy's name", summary("PASSED", func(s *vsa.VerificationSummary) {
			s.Policy.Uri = policy.DecisionURI("other", policy.Accept, policytest.Class)
		}), failed, []want{{"accepted", failed, "policy/other#accept"}}},
		{"that refuses", summary("FAILED", nil), failed, []want{{"accepted", failed, "the newest decision is FAILED"}}},
		{"without the level", summary("PASSED", func(s *vsa.VerificationSummary) { s.VerifiedLevels = []string{"SLSA_BUILD_LEVEL_3"} }),
			failed, []want{{"accepted", failed, "levels [SLSA_BUILD_LEVEL_3]"}}},
		{"that rests on nothing", summary("PASSED", func(s *vsa.VerificationSummary) { s.InputAttestations = nil }),
			failed, []want{{"accepted", failed, "a decision that rests on nothing"}}},
		{"that rests on something that is not here", summary("PASSED", func(s *vsa.VerificationSummary) { s.InputAttestations[0].Digest = sha("elsewhere") }),
			undecided, []want{{"accepted", undecided, "rests on attestation " + godigest.FromString("elsewhere").String()}}},
		{"a refusal after an acceptance", func(t *testing.T, w *policytest.World) {
			w.Add(t, "q8-summary", policytest.Summary("second-look", "FAILED", nil))
		}, failed, []want{{"accepted", failed, "the newest decision is FAILED"}}},
	})
	t.Run("an acceptance after a refusal", func(t *testing.T) {
		w := newWorld(t)
		w.Add(t, "q8-accepted", policytest.Summary("first-look", "FAILED", nil))
		check(t, decide(t, w, w.Sign(t).Evidence, policy.Deliver), schemas.Passed)
	})
}

func TestDeliveredReloadedAndCompleted(t *testing.T) {
	failed, undecided := schemas.Failed, schemas.Undecided
	refusals(t, policy.Redistribute, []change{
		{"other bytes at the destination", func(t *testing.T, w *policytest.World) { w.Step(t, "q8-delivered").Outputs[0] = otherFile },
			failed, []want{{"delivered", failed, "got other bytes at the destination"}}},
		{"a delivery that failed", func(t *testing.T, w *policytest.World) {
			r := &w.Step(t, "q8-delivered").Result
			r.Verdict, r.ExitStatus, r.Failure = schemas.Failed, 1, "the disk was full"
		}, failed, []want{{"delivered", failed, "the disk was full"}}},
		{"a reload of other bytes", func(t *testing.T, w *policytest.World) { w.Step(t, "q8-reloaded").Inputs[0].Digest = otherFile.Digest },
			undecided, []want{{"reloaded", undecided, "got no claim"}}},
		{"a reload with a network", func(t *testing.T, w *policytest.World) {
			w.Step(t, "q8-reloaded").Result.Facts["network"] = "reachable"
		}, undecided, []want{{"reloaded", undecided, `isolation during reload: network: undecided: got "reachable", want denied`}}},
		{"a reload that says nothing of the network", func(t *testing.T, w *policytest.World) {
			delete(w.Step(t, "q8-reloaded").Result.Facts, "network")
		}, undecided, []want{{"reloaded", undecided, `isolation during reload: network: undecided: got "", want denied`}}},
		{"a reload that failed after one that passed", func(t *testing.T, w *policytest.World) {
			again := *w.Step(t, "q8-reloaded")
			again.Name, again.Result.Verdict, again.Result.ExitStatus, again.Result.Failure = "again", schemas.Failed, 1, "another answer"
			w.Add(t, "q8-reloaded", &again)
		}, failed, []want{{"reloaded", failed, "another answer"}}},
		{"a completion by the producer", func(t *testing.T, w *policytest.World) { w.Step(t, "completion").By = []string{policytest.Producer} },
			undecided, []want{{"completed", undecided, "got no claim"}}},
		{"a completion under another policy", func(t *testing.T, w *policytest.World) {
			*w.Step(t, "completion") = *policytest.Completion("completion", godigest.FromString("an easier policy"), policytest.Gatekeeper)
		}, failed, []want{{"completed", failed, "finished under policy " + godigest.FromString("an easier policy").String()}}},
	})
	t.Run("a completion under this policy after one under an earlier policy", func(t *testing.T) {
		w := newWorld(t)
		w.Add(t, "finished", policytest.Completion("before", godigest.FromString("the policy before"), policytest.Gatekeeper))
		check(t, decide(t, w, w.Sign(t).Evidence, policy.Redistribute), schemas.Passed)
	})
}

func TestWithdrawnClaimsAreNotLookedAt(t *testing.T) {
	failed, undecided := schemas.Failed, schemas.Undecided
	take := func(step, by string) func(*testing.T, *policytest.World) {
		return func(t *testing.T, w *policytest.World) {
			w.Add(t, "", policytest.Withdrawal("back", step, "measured beside another model", by))
		}
	}
	refusals(t, policy.Deliver, []change{
		{"an examination, by who signed it", take("q8-evaluated", policytest.Producer), failed, []want{
			{"checks", undecided, "evaluate of the artifact against baseline: undecided: got no claim"},
			{"accepted", failed, "withdrawn: measured beside another model"},
			{"withdrawn", schemas.Passed, "withdrawn: measured beside another model, want not looked at"},
		}},
		{"an examination, by the gatekeeper", take("q8-evaluated", policytest.Gatekeeper), failed, []want{{"accepted", failed, "rests on claim"}}},
		{"the quantization", take("q8", policytest.Producer), failed, []want{{"chain", undecided, "no claim by a trusted functionary says who made it"}}},
		{"the acceptance", take("q8-summary", policytest.Gatekeeper), undecided, []want{{"accepted", undecided, "no summary"}}},
	})
	for _, by := range []string{policytest.Stranger, policytest.Second} {
		t.Run("a withdrawal by "+by+", who may not, does nothing", func(t *testing.T) {
			w := newWorld(t)
			take("q8-evaluated", by)(t, w)
			check(t, decide(t, w, w.Sign(t).Evidence, policy.Deliver), schemas.Passed)
		})
	}
	t.Run("the producer may not take the gatekeeper's decision back", func(t *testing.T) {
		w := newWorld(t)
		take("q8-summary", policytest.Producer)(t, w)
		check(t, decide(t, w, w.Sign(t).Evidence, policy.Deliver), schemas.Passed)
	})
	t.Run("a failed run that was withdrawn no longer stands in the way", func(t *testing.T) {
		w := newWorld(t)
		bad := *w.Step(t, "q8-evaluated")
		bad.Name, bad.Result.Verdict, bad.Result.ExitStatus, bad.Result.Failure = "broken", schemas.Failed, 1, "out of memory"
		w.Add(t, "baseline", &bad)
		check(t, decide(t, w, w.Sign(t).Evidence, policy.Accept), failed, want{"results", failed, "out of memory"})
		w.Add(t, "broken", policytest.Withdrawal("hidden", "broken", "it speaks against me", policytest.Producer))
		check(t, decide(t, w, w.Sign(t).Evidence, policy.Accept), failed, want{"results", failed, "out of memory"})
		w.Add(t, "broken", policytest.Withdrawal("back", "broken", "out of memory; run again", policytest.Gatekeeper))
		check(t, decide(t, w, w.Sign(t).Evidence, policy.Accept), schemas.Passed)
	})
}

func TestClassOfTheNewestAcceptance(t *testing.T) {
	w := newWorld(t)
	s := w.Sign(t)
	if class, err := policy.ClassOf(w.Policy, s.Claims, policytest.Artifact.Digest); err != nil || class != policytest.Class {
		t.Errorf("got %q, %v; want %s", class, err, policytest.Class)
	}
	if _, err := policy.ClassOf(w.Policy, s.Claims, policytest.BF16.Digest); err == nil || !strings.Contains(err.Error(), "no acceptance of "+policytest.BF16.Digest.String()) {
		t.Errorf("got %v, want that nobody accepted it", err)
	}
}
