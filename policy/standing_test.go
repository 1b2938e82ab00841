package policy_test

import (
	"testing"
	"time"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

func TestNothingWithdrawnOrSupersededStands(t *testing.T) {
	failed := schemas.Failed
	successor := godigest.FromString("a better file")
	refusals(t, policy.Redistribute, []change{
		{"an evaluation that the acceptance rested on, measured anew since", func(t *testing.T, w *policytest.World) {
			again := *w.Step(t, "q8-evaluated")
			again.Name = "q8-evaluated-again"
			w.Add(t, "", &again, policytest.Withdrawal("w", "q8-evaluated", "measured beside another server", policytest.Producer))
		}, failed, []want{{"accepted", failed, "withdrawn: measured beside another server"}}},
		{"the artifact superseded, made and accepted again", func(t *testing.T, w *policytest.World) {
			again := *w.Step(t, "q8")
			again.Name = "q8-again"
			w.Add(t, "q8", &again, policytest.Supersession("w", "q8", "wrong tokenizer", policytest.Producer, successor))
		}, failed, []want{{"standing", failed, "successor of " + policytest.Artifact.Digest.String() + ": failed: got " + successor.String() + ": wrong tokenizer"}}},
		{"what it was made from superseded", func(t *testing.T, w *policytest.World) {
			again := *w.Step(t, "bf16")
			again.Name = "bf16-again"
			w.Add(t, "bf16", &again, policytest.Supersession("w", "bf16", "wrong tokenizer", policytest.Producer, successor))
		}, failed, []want{{"standing", failed, "successor of " + policytest.BF16.Digest.String()}}},
	})
	t.Run("a test that was made anew supersedes no artifact", func(t *testing.T) {
		w := newWorld(t)
		again := *w.Step(t, "q8-derived")
		again.Name = "q8-derived-again"
		w.Add(t, "q8-summary", &again, policytest.Supersession("w", "q8-derived-again", "too slow", policytest.Producer, successor))
		check(t, decide(t, w, w.Sign(t).Evidence, policy.Redistribute), schemas.Passed, want{"standing", schemas.Passed, "none withdrawn"})
	})
	t.Run("wherever the rule is listed", func(t *testing.T) {
		w := newWorld(t)
		d := w.Policy.Decisions[policy.Redistribute]
		d.Requires = append([]string{"standing"}, d.Requires[:len(d.Requires)-1]...)
		w.Policy.Decisions[policy.Redistribute] = d
		check(t, decide(t, w, w.Sign(t).Evidence, policy.Redistribute), schemas.Passed, want{"standing", schemas.Passed, "got 12, none withdrawn"})
	})
}

// Only who has the whole log can tell that nothing was left out.
func TestTheWholeLogMustBeHere(t *testing.T) {
	w := newWorld(t)
	w.Policy.Standing = &schemas.StandingRule{WholeLog: true}
	lone := *w.Step(t, "q8-reloaded")
	lone.Name, lone.Inputs = "another-file", []policy.NamedDigest{policytest.In("artifact", policytest.BF16)}
	w.Add(t, "", &lone)
	s := w.Sign(t)
	check(t, decide(t, w, s.Evidence, policy.Redistribute), schemas.Passed, want{"standing", schemas.Passed, "got 14 of 14 entries, want all entries"})
	s.Claims = s.Claims[:len(s.Claims)-1]
	check(t, decide(t, w, s.Evidence, policy.Redistribute), schemas.Undecided, want{"standing", schemas.Undecided, "got 13 of 14 entries, want all entries: a withdrawal may have been left out"})
	s.Size, s.Places = 0, nil
	check(t, decide(t, w, s.Evidence, policy.Redistribute), schemas.Undecided, want{"standing", schemas.Undecided, "how long the log is, nobody vouches"})
}

func TestWitnessesCosigned(t *testing.T) {
	now := policytest.Now
	cosigned := func(names ...string) []policy.Cosignature {
		var list []policy.Cosignature
		for _, n := range names {
			list = append(list, policy.Cosignature{Name: n, Time: now.Add(-time.Minute)})
		}
		return list
	}
	for _, c := range []struct {
		name    string
		have    []policy.Cosignature
		verdict schemas.Verdict
		words   string
	}{
		{"two of three", cosigned("w1", "w3"), schemas.Passed, "got [w1 w3], want 2 of [w1 w2 w3]"},
		{"none", nil, schemas.Undecided, "got no cosignatures"},
		{"one", cosigned("w1"), schemas.Failed, "got [w1]"},
		{"one twice", cosigned("w1", "w1"), schemas.Failed, "got [w1]"},
		{"one and a stranger", cosigned("w1", "w9"), schemas.Failed, "got [w1] and, not counted, [w9]"},
		{"one from the future", append(cosigned("w1"), policy.Cosignature{Name: "w2", Time: now.Add(time.Second)}), schemas.Failed, "not counted, [w2, dated 2026-03-01 12:00:01"},
		{"one without a time", append(cosigned("w1"), policy.Cosignature{Name: "w2"}), schemas.Failed, "not counted, [w2, dated 0001"},
		{"this very moment", append(cosigned("w1"), policy.Cosignature{Name: "w2", Time: now}), schemas.Passed, "got [w1 w2]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.Policy.Witnesses = &schemas.WitnessRule{Names: []string{"w1", "w2", "w3"}, Threshold: 2}
			requireMore(w, policy.Redistribute, "witnesses")
			ev := w.Sign(t).Evidence
			ev.Witnesses = c.have
			check(t, decide(t, w, ev, policy.Redistribute), c.verdict, want{"witnesses", c.verdict, c.words})
		})
	}
	t.Run("fresh cosignatures", func(t *testing.T) {
		for ago, verdict := range map[time.Duration]schemas.Verdict{time.Hour: schemas.Passed, 24 * time.Hour: schemas.Failed} {
			w := newWorld(t)
			w.Policy.Witnesses = &schemas.WitnessRule{Names: []string{"w1", "w2"}, Threshold: 2}
			w.Policy.Fresh = map[string]schemas.Age{"witnesses": "24h"}
			requireMore(w, policy.Redistribute, "witnesses", "fresh")
			ev := w.Sign(t).Evidence
			ev.Witnesses = []policy.Cosignature{{Name: "w1", Time: now}, {Name: "w2", Time: now.Add(-ago)}}
			check(t, decide(t, w, ev, policy.Redistribute), verdict, want{"fresh", verdict, "age of the witnesses' cosignatures"})
		}
	})
}
