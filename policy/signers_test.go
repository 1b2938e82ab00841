package policy_test

import (
	"testing"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

func TestEveryRunIsSignedByWhoMay(t *testing.T) {
	by := func(step string, people ...string) func(*testing.T, *policytest.World) {
		return func(t *testing.T, w *policytest.World) { w.Step(t, step).By = people }
	}
	failed := schemas.Failed
	var list []change
	for step, name := range map[string]string{
		"source": "source (acquire)", "source-inspected": "source-inspected (inspect)", "bf16": "bf16 (convert)", "q8": "q8 (quantize)",
		"q8-derived": "q8-derived (derive)", "baseline": "baseline (baseline)", "q8-evaluated": "q8-evaluated (evaluate)",
	} {
		list = append(list, change{name + " by a stranger", by(step, policytest.Stranger), failed,
			[]want{{"signers", failed, name + ": failed: got none of them; and not counted: stranger, want 1 of producer"}}})
	}
	list = append(list, change{"by the gatekeeper, who may only decide", by("q8", policytest.Gatekeeper), failed, []want{{"signers", failed, "not counted: gatekeeper"}}})
	refusals(t, policy.Accept, list)
}

// two asks for two signers of the quantization.
func two(t testing.TB, people ...string) *policytest.World {
	t.Helper()
	w := newWorld(t)
	w.Policy.Signers["quantize"] = schemas.SignerRule{Functionaries: []string{policytest.Producer, policytest.Second, policytest.Alias}, Threshold: 2}
	w.Step(t, "q8").By = people
	return w
}

func TestAThresholdCountsPeopleWithKeysOfTheirOwn(t *testing.T) {
	for _, c := range []struct {
		name    string
		by      []string
		verdict schemas.Verdict
		words   string
	}{
		{"two people", []string{policytest.Producer, policytest.Second}, schemas.Passed, "2 of them: producer, second"},
		{"one person", []string{policytest.Producer}, schemas.Failed, "got 1 of them: producer, want 2 of"},
		{"one person who signs twice", []string{policytest.Producer, policytest.Producer}, schemas.Failed, "got 1 of them: producer"},
		{"one person with two keys", []string{policytest.Producer, policytest.Successor}, schemas.Failed, "got 1 of them: producer"},
		{"one person with a second key, and somebody else", []string{policytest.Successor, policytest.Second}, schemas.Passed, "2 of them: producer, second"},
		{"one key under two names", []string{policytest.Producer, policytest.Alias}, schemas.Failed, "got 1 of them: producer"},
		{"a second one who is not named", []string{policytest.Producer, policytest.Stranger}, schemas.Failed, "not counted: stranger"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := two(t, c.by...)
			check(t, decide(t, w, w.Sign(t).Evidence, policy.Accept), c.verdict, want{"signers", c.verdict, c.words})
		})
	}
	t.Run("one signature twice", func(t *testing.T) {
		w := two(t, policytest.Producer)
		s := w.Sign(t)
		ev := s.Evidence
		ev.Claims = append(ev.Claims, s.Claim(t, "q8"))
		check(t, decide(t, w, ev, policy.Accept), schemas.Failed, want{"signers", schemas.Failed, "got 1 of them: producer"})
	})
	t.Run("two people who say different things", func(t *testing.T) {
		w := two(t, policytest.Producer)
		other := *w.Step(t, "q8")
		other.By, other.With = []string{policytest.Second}, map[string]any{"type": "Q8_0"}
		other.Name = "q8-again"
		w.Add(t, "q8", &other)
		check(t, decide(t, w, w.Sign(t).Evidence, policy.Accept), schemas.Failed, want{"signers", schemas.Failed, "1 of them"})
	})
	t.Run("two gatekeepers must accept", func(t *testing.T) {
		for people, verdict := range map[int]schemas.Verdict{1: schemas.Failed, 2: schemas.Passed} {
			w := newWorld(t)
			rule := w.Policy.Decisions[policy.Accept]
			rule.SignerRule = schemas.SignerRule{Functionaries: []string{policytest.Gatekeeper, policytest.Second}, Threshold: 2}
			w.Policy.Decisions[policy.Accept] = rule
			w.Step(t, "q8-summary").By = []string{policytest.Gatekeeper, policytest.Second}[:people]
			check(t, decide(t, w, w.Sign(t).Evidence, policy.Deliver), verdict, want{"accepted", verdict, "2 of gatekeeper, second"})
		}
	})
}
