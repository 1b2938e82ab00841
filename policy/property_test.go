package policy_test

import (
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	godigest "github.com/opencontainers/go-digest"
	"pgregory.net/rapid"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

// Taking evidence away, exactly:
//
//   - Good word. Claims that speak for the artifact, evidence objects and
//     cosignatures: without any of them no no becomes a yes, whatever bad news is
//     there besides. (TestLessGoodWordNeverAllowsMore)
//   - Bad news: a withdrawal, a run or report that did not pass, a refusal, a
//     review that says no. Leaving it out can hide it from a reader who has nothing
//     else. Three things hold against that. What was said before the acceptance was
//     seen by those who took it, and it lists the claims that it rests on, each of
//     which must be here. A completion lists all that the run finished with. And
//     where the policy's rule standing wants the whole log, the size that the signed
//     checkpoint states tells whether anything at all is gone: then taking away any
//     claim, good or bad, never turns a no into a yes. (TestWithTheWholeLogNothingCanBeLeftOut)

// worlds are signed once: signing costs more than deciding.
type signedWorld struct {
	*policytest.World
	ev  policy.Evidence
	bad map[godigest.Digest]bool // bundles of bad news
}

var worlds = sync.OnceValue(func() (list []signedWorld) {
	t := outside{}
	defer func() { failedWorlds = recover() }()
	add := func(do func(w *policytest.World), bad ...string) {
		w := newWorld(t)
		w.Policy.Reviewers = &schemas.SignerRule{Functionaries: []string{policytest.Second, policytest.Stranger}, Threshold: 1}
		w.Policy.Scans = &schemas.ScanRule{Allowed: []string{"safe"}}
		w.Policy.Fresh = map[string]schemas.Age{"reload": "720h", "acceptance": "720h", "review": "720h", "witnesses": "24h"}
		w.Policy.Witnesses = &schemas.WitnessRule{Names: []string{"w1", "w2"}, Threshold: 1}
		w.Policy.Standing = &schemas.StandingRule{}
		requireMore(w, policy.Redistribute, "scans", "review", "fresh", "witnesses")
		w.Add(t, "", policytest.Review("review", policytest.Second, schemas.Passed))
		do(w)
		s := w.Sign(t)
		ev := s.Evidence
		ev.Witnesses = []policy.Cosignature{{Name: "w1", Time: policytest.Now.Add(-time.Hour)}, {Name: "w2", Time: policytest.Now.Add(-48 * time.Hour)}}
		sw := signedWorld{World: w, ev: ev, bad: map[godigest.Digest]bool{}}
		for _, name := range bad {
			sw.bad[s.Claim(t, name).Bundle()] = true
		}
		list = append(list, sw)
	}
	again := func(w *policytest.World, step, name string, do func(*policytest.Step)) *policytest.Step {
		s := *w.Step(t, step)
		s.Name = name
		if do != nil {
			do(&s)
		}
		return &s
	}
	add(func(*policytest.World) {})
	add(func(w *policytest.World) {
		w.Policy.Signers["quantize"] = schemas.SignerRule{Functionaries: []string{policytest.Producer, policytest.Gatekeeper}, Threshold: 2}
		w.Step(t, "q8").By = []string{policytest.Producer, policytest.Gatekeeper}
	})
	add(func(w *policytest.World) { // everything twice
		for _, step := range []string{"bf16", "q8", "q8-derived", "q8-evaluated", "q8-reloaded"} {
			w.Add(t, step, again(w, step, step+"-again", nil))
		}
		w.Add(t, "", policytest.Review("review-2", policytest.Stranger, schemas.Passed))
	})
	add(func(w *policytest.World) {
		w.Add(t, "q8", again(w, "q8-derived", "bad", func(s *policytest.Step) {
			rep := policytest.Report("derive", policytest.Artifact)
			rep.Verdict, rep.Findings = schemas.Failed, []schemas.Finding{{Check: "values", Where: "output.weight", Got: "1", Want: "2"}}
			s.Reports = []*schemas.Report{rep}
		}))
	}, "bad")
	add(func(w *policytest.World) {
		w.Add(t, "", again(w, "q8-reloaded", "bad", func(s *policytest.Step) {
			s.Result = schemas.Result{Schema: schemas.ResultURI, Verdict: schemas.Failed, ExitStatus: 1, Failure: "it does not answer", Facts: map[string]string{}}
		}))
	}, "bad")
	add(func(w *policytest.World) {
		w.Add(t, "", again(w, "q8", "q8-again", nil), policytest.Withdrawal("bad", "q8-evaluated", "measured beside another model", policytest.Gatekeeper))
	}, "bad")
	add(func(w *policytest.World) {
		w.Add(t, "", policytest.Supersession("bad", "bf16", "wrong tokenizer", policytest.Producer, otherFile.Digest), again(w, "bf16", "bf16-again", nil))
	}, "bad")
	add(func(w *policytest.World) { w.Add(t, "", policytest.Summary("bad", "FAILED", nil)) }, "bad")
	add(func(w *policytest.World) {
		w.Add(t, "", policytest.Review("bad", policytest.Stranger, schemas.Failed))
	}, "bad")
	add(func(w *policytest.World) { // a reviewer who made it: his own claim speaks against his review
		w.Step(t, "bf16").By = []string{policytest.Producer}
		w.Add(t, "bf16", again(w, "q8", "bad", func(s *policytest.Step) { s.By = []string{policytest.Second} }))
	}, "bad")
	return list
})

var failedWorlds any

// outside is the test of what is made outside any test.
type outside struct{ testing.TB }

func (outside) Helper()                      {}
func (outside) Fatal(args ...any)            { panic(args) }
func (outside) Fatalf(f string, args ...any) { panic(append([]any{f}, args...)) }

var decisions = []string{policy.Accept, policy.Deliver, policy.Redistribute}

func drawWorld(t *testing.T, rt *rapid.T) signedWorld {
	list := worlds()
	if failedWorlds != nil || len(list) < 10 {
		t.Fatalf("the worlds could not be made: %v", failedWorlds)
	}
	return rapid.SampledFrom(list).Draw(rt, "world")
}

// less takes some, most or a few single claims, objects and cosignatures away; keep tells which claims stay.
func less(rt *rapid.T, ev policy.Evidence, keep func(attest.Claim) bool) policy.Evidence {
	objects := sortedDigests(ev.Objects)
	n := len(ev.Claims) + len(objects) + len(ev.Witnesses)
	gone := make([]bool, n)
	if rapid.Bool().Draw(rt, "single") {
		for range rapid.IntRange(0, 3).Draw(rt, "how many") {
			// Half of the time a claim: there are more objects, and nearly all are needed.
			end := n
			if rapid.Bool().Draw(rt, "claim") {
				end = len(ev.Claims)
			}
			if end > 0 {
				gone[rapid.IntRange(0, end-1).Draw(rt, "which")] = true
			}
		}
	} else {
		stay := rapid.IntRange(1, 29).Draw(rt, "of thirty")
		for i := range gone {
			gone[i] = rapid.IntRange(1, 30).Draw(rt, "this") > stay
		}
	}
	out := ev
	out.Claims, out.Objects, out.Witnesses = nil, map[godigest.Digest][]byte{}, nil
	for i, c := range ev.Claims {
		if keep(c) || !gone[i] {
			out.Claims = append(out.Claims, c)
		}
	}
	for i, d := range objects {
		if !gone[len(ev.Claims)+i] {
			out.Objects[d] = ev.Objects[d]
		}
	}
	for i, w := range ev.Witnesses {
		if !gone[len(ev.Claims)+len(objects)+i] {
			out.Witnesses = append(out.Witnesses, w)
		}
	}
	return out
}

func sortedDigests(m map[godigest.Digest][]byte) []godigest.Digest {
	var list []godigest.Digest
	for d := range m {
		list = append(list, d)
	}
	slices.Sort(list)
	return list
}

func TestLessGoodWordNeverAllowsMore(t *testing.T) {
	yes := 0
	rapid.Check(t, func(rt *rapid.T) {
		w := drawWorld(t, rt)
		decision := rapid.SampledFrom(decisions).Draw(rt, "decision")
		bad := func(c attest.Claim) bool { return w.bad[c.Bundle()] }
		some := less(rt, w.ev, bad)
		fewer := less(rt, some, bad)
		before, after := decide(t, w.World, some, decision), decide(t, w.World, fewer, decision)
		if after.Verdict == schemas.Passed {
			yes++
			if before.Verdict != schemas.Passed {
				rt.Fatalf("%s: %s with %d claims and %d objects, passed with %d and %d: %v", decision, before.Verdict, len(some.Claims), len(some.Objects), len(fewer.Claims), len(fewer.Objects), before.Failures())
			}
		}
	})
	// How often less was still enough is chance; that everything is enough is not.
	if w := worlds()[0]; decide(t, w.World, w.ev, policy.Redistribute).Verdict != schemas.Passed {
		t.Error("nothing is ever allowed; the test looks at too little")
	}
	t.Logf("allowed %d times", yes)
}

func TestWithTheWholeLogNothingCanBeLeftOut(t *testing.T) {
	answers := map[*policytest.World]schemas.Verdict{} // with everything
	rapid.Check(t, func(rt *rapid.T) {
		w := drawWorld(t, rt)
		whole := *w.World
		whole.Policy.Standing = &schemas.StandingRule{WholeLog: true}
		fewer := less(rt, w.ev, func(attest.Claim) bool { return false })
		got := decide(t, &whole, fewer, policy.Redistribute)
		if got.Verdict == schemas.Passed && len(fewer.Claims) < len(w.ev.Claims) {
			rt.Fatalf("passed with %d of %d claims", len(fewer.Claims), len(w.ev.Claims))
		}
		if answers[w.World] == "" {
			answers[w.World] = decide(t, &whole, w.ev, policy.Redistribute).Verdict
		}
		if all := answers[w.World]; all != schemas.Passed && got.Verdict == schemas.Passed {
			rt.Fatalf("%s with everything, passed with less", all)
		}
	})
}

// Where a claim lies in a slice says nothing, nor does saying it twice.
func TestOrderAndRepetitionChangeNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := drawWorld(t, rt)
		decision := rapid.SampledFrom(decisions).Draw(rt, "decision")
		ev := less(rt, w.ev, func(attest.Claim) bool { return false })
		other := ev
		other.Claims = append(slices.Clone(ev.Claims), rapid.SliceOfN(rapid.SampledFrom(w.ev.Claims), 0, 5).Filter(func(list []attest.Claim) bool {
			return !slices.ContainsFunc(list, func(c attest.Claim) bool {
				return !slices.ContainsFunc(ev.Claims, func(d attest.Claim) bool { return c.Bundle() == d.Bundle() })
			})
		}).Draw(rt, "twice")...)
		other.Claims = rapid.Permutation(other.Claims).Draw(rt, "order")
		other.Witnesses = append(slices.Clone(ev.Witnesses), ev.Witnesses...)
		if len(other.Witnesses) > 0 {
			other.Witnesses = rapid.Permutation(other.Witnesses).Draw(rt, "witnesses")
		}
		a, b := answer(t, w.World, ev, decision), answer(t, w.World, other, decision)
		if a != b {
			rt.Fatalf("%s:\n%s\nin another order:\n%s", decision, a, b)
		}
	})
}

func answer(t *testing.T, w *policytest.World, ev policy.Evidence, decision string) string {
	t.Helper()
	body, err := json.MarshalIndent(decide(t, w, ev, decision), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// Without evidence every decision is a no, and so is it with evidence of something else.
func TestNothingAllowsNothing(t *testing.T) {
	w := worlds()[0]
	for _, decision := range decisions {
		for name, ev := range map[string]policy.Evidence{
			"no evidence": {}, "only objects": {Objects: w.ev.Objects}, "only witnesses": {Witnesses: w.ev.Witnesses}, "claims without their objects": {Claims: w.ev.Claims, Places: w.ev.Places},
		} {
			d := decide(t, w.World, ev, decision)
			if d.Verdict == schemas.Passed {
				t.Errorf("%s is allowed with %s", decision, name)
			}
		}
	}
}

func TestEvidenceThatContradictsItselfIsAnError(t *testing.T) {
	w := worlds()[0]
	ev := w.ev
	ev.Places = map[godigest.Digest]policy.Place{}
	if _, err := policy.Decide(w.Policy, ev, question(w.World, policy.Accept)); err == nil {
		t.Error("claims without a place are taken")
	}
	ev = w.ev
	ev.Claims = append(slices.Clone(ev.Claims), attest.Claim{})
	if _, err := policy.Decide(w.Policy, ev, question(w.World, policy.Accept)); err == nil {
		t.Error("a claim that no verifier made is taken")
	}
}
