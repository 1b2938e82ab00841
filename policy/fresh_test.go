package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

// aged wants evidence of a kind to be younger than 720 hours, in a world whose
// step of that name ended so long before the question.
func aged(t testing.TB, kind, step string, ago time.Duration) *policytest.World {
	t.Helper()
	w := newWorld(t)
	w.Policy.Fresh = map[string]schemas.Age{kind: "720h"}
	requireMore(w, policy.Redistribute, "fresh")
	w.Step(t, step).At = policytest.Now.Add(-ago)
	return w
}

func TestEvidenceGrowsTooOld(t *testing.T) {
	const bound = 720 * time.Hour
	for kind, step := range map[string]string{
		"reload": "q8-reloaded", "evaluate": "q8-evaluated", "quantize": "q8", "acquire": "source", "deliver": "q8-delivered", "acceptance": "q8-summary",
	} {
		for _, c := range []struct {
			name    string
			ago     time.Duration
			verdict schemas.Verdict
			words   string
		}{
			{"new", time.Hour, schemas.Passed, "1h0m0s (2026-03-01T11:00:00Z)"},
			{"a second younger than the bound", bound - time.Second, schemas.Passed, "719h59m59s"},
			{"exactly as old as the bound", bound, schemas.Failed, "got 720h0m0s (2026-01-30T12:00:00Z), want younger than 720h0m0s"},
			{"older", bound + time.Hour, schemas.Failed, "got 721h0m0s"},
			{"from the future", -time.Second, schemas.Failed, "which is to come"},
		} {
			if kind != "reload" && kind != "acceptance" && c.name != "exactly as old as the bound" {
				continue // they go the same way
			}
			t.Run(kind+" "+c.name, func(t *testing.T) {
				w := aged(t, kind, step, c.ago)
				check(t, decide(t, w, w.Sign(t).Evidence, policy.Redistribute), c.verdict, want{"fresh", c.verdict, c.words})
			})
		}
	}
}

func TestTheOldestKnownTimeOfAClaimCounts(t *testing.T) {
	t.Run("a Statement that says later than the log", func(t *testing.T) {
		w := aged(t, "reload", "q8-reloaded", time.Hour)
		s := w.Sign(t)
		bundle := s.Claim(t, "q8-reloaded").Bundle()
		s.Places[bundle] = policy.Place{Index: s.Places[bundle].Index, Appended: policytest.Now.Add(-1000 * time.Hour)}
		check(t, decide(t, w, s.Evidence, policy.Redistribute), schemas.Failed, want{"fresh", schemas.Failed, "1000h0m0s"})
	})
	t.Run("an old Statement that the log took in lately", func(t *testing.T) {
		w := aged(t, "reload", "q8-reloaded", 1000*time.Hour)
		s := w.Sign(t)
		bundle := s.Claim(t, "q8-reloaded").Bundle()
		s.Places[bundle] = policy.Place{Index: s.Places[bundle].Index, Appended: policytest.Now}
		check(t, decide(t, w, s.Evidence, policy.Redistribute), schemas.Failed, want{"fresh", schemas.Failed, "1000h0m0s"})
	})
	t.Run("the newest of two counts", func(t *testing.T) {
		w := aged(t, "reload", "q8-reloaded", 1000*time.Hour)
		again := *w.Step(t, "q8-reloaded")
		again.Name, again.At = "q8-reloaded-again", policytest.Now.Add(-time.Hour)
		w.Add(t, "q8-reloaded", &again)
		check(t, decide(t, w, w.Sign(t).Evidence, policy.Redistribute), schemas.Passed, want{"fresh", schemas.Passed, "1h0m0s"})
	})
	t.Run("one of two reviewers is not two", func(t *testing.T) {
		old := policytest.Review("r", policytest.Second, schemas.Passed)
		old.At = policytest.Now.Add(-1000 * time.Hour)
		w := reviewed(t, 2, old, policytest.Review("r2", policytest.Stranger, schemas.Passed))
		w.Policy.Fresh = map[string]schemas.Age{"review": "720h"}
		requireMore(w, policy.Redistribute, "fresh")
		check(t, decide(t, w, w.Sign(t).Evidence, policy.Redistribute), schemas.Failed, want{"fresh", schemas.Failed, "1000h0m0s"})
	})
	t.Run("a fresh review by one who made it makes no other fresh", func(t *testing.T) {
		old := policytest.Review("r", policytest.Second, schemas.Passed)
		old.At = policytest.Now.Add(-1000 * time.Hour)
		w := reviewed(t, 1, old, policytest.Review("r2", policytest.Stranger, schemas.Passed))
		again := *w.Step(t, "q8")
		again.Name, again.By = "q8-by-the-reviewer", []string{policytest.Stranger}
		w.Add(t, "bf16", &again)
		w.Policy.Fresh = map[string]schemas.Age{"review": "720h"}
		requireMore(w, policy.Redistribute, "fresh")
		check(t, decide(t, w, w.Sign(t).Evidence, policy.Redistribute), schemas.Failed, want{"fresh", schemas.Failed, "1000h0m0s"}, want{"review", schemas.Passed, "not counted: stranger, who made it"})
	})
	t.Run("nothing of the kind", func(t *testing.T) {
		w := aged(t, "calibrate", "q8", 0)
		check(t, decide(t, w, w.Sign(t).Evidence, policy.Redistribute), schemas.Undecided, want{"fresh", schemas.Undecided, "age of calibrate: undecided: got nothing of the kind"})
	})
}

// Nothing here reads a clock: a question that needs the moment must give it.
func TestAnAgeNeedsAMoment(t *testing.T) {
	w := aged(t, "reload", "q8-reloaded", 0)
	q := question(w, policy.Redistribute)
	q.At = time.Time{}
	if _, err := policy.Decide(w.Policy, w.Sign(t).Evidence, q); err == nil || !strings.Contains(err.Error(), "gives no moment") {
		t.Errorf("got %v", err)
	}
}
