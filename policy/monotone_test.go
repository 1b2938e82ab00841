package policy_test

import (
	"slices"
	"testing"

	godigest "github.com/opencontainers/go-digest"
	"pgregory.net/rapid"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

// TestTakingObjectsAwayNeverHidesABadReport removes only objects, from a world with a bad report in it.
func TestTakingObjectsAwayNeverHidesABadReport(t *testing.T) {
	w := newWorld(t)
	again := *w.Step(t, "q8-derived")
	bad := policytest.Report("derive", policytest.Artifact)
	bad.Verdict, bad.Findings = schemas.Failed, []schemas.Finding{{Check: "values", Where: "output.weight", Got: "1", Want: "2"}}
	again.Name, again.Reports = "q8-derived-before", []*schemas.Report{bad}
	w.Add(t, "q8", &again)
	ev := w.Sign(t).Evidence
	rapid.Check(t, func(rt *rapid.T) {
		less := thin(rt, ev)
		less.Claims = ev.Claims
		if d := decide(t, w, less, policy.Accept); d.Verdict == schemas.Passed {
			rt.Fatalf("passed with %d of %d objects", len(less.Objects), len(ev.Objects))
		}
	})
}

// TestEveryClaimAndObjectIsNeeded takes one away at a time.
func TestEveryClaimAndObjectIsNeeded(t *testing.T) {
	w := newWorld(t)
	ev := w.Sign(t).Evidence
	d := decide(t, w, ev, policy.Redistribute)
	for i, c := range ev.Claims {
		less := policy.Evidence{Claims: slices.Delete(slices.Clone(ev.Claims), i, i+1), Objects: ev.Objects}
		got := decide(t, w, less, policy.Redistribute)
		if restsOn := slices.Contains(d.Claims, c.Bundle()); restsOn && got.Verdict == schemas.Passed {
			t.Errorf("passed without claim %d, on which it rests", i)
		}
	}
	needed := 0
	for _, run := range runsOf(ev) {
		if !slices.Contains(d.Claims, run.Claims[0].Bundle()) {
			continue
		}
		for _, gone := range run.Evidence() {
			needed++
			less := policy.Evidence{Claims: ev.Claims, Objects: map[godigest.Digest][]byte{}}
			for k, v := range ev.Objects {
				if k != gone {
					less.Objects[k] = v
				}
			}
			if decide(t, w, less, policy.Redistribute).Verdict == schemas.Passed {
				t.Errorf("passed without object %s of %s", gone, run.External.Stage)
			}
		}
	}
	if needed < 15 {
		t.Errorf("only %d objects were taken away; the test looks at too little", needed)
	}
}

func runsOf(ev policy.Evidence) []*policy.Run { runs, _ := policy.Runs(ev.Claims); return runs }

func thin(rt *rapid.T, ev policy.Evidence) policy.Evidence {
	less := policy.Evidence{Objects: map[godigest.Digest][]byte{}}
	for _, c := range ev.Claims {
		if c.PredicateType() == attest.WithdrawalType || rapid.IntRange(0, 9).Draw(rt, "claim") > 0 {
			less.Claims = append(less.Claims, c)
		}
	}
	var names []godigest.Digest
	for d := range ev.Objects {
		names = append(names, d)
	}
	slices.Sort(names)
	for _, d := range names {
		if rapid.IntRange(0, 9).Draw(rt, "object") > 0 {
			less.Objects[d] = ev.Objects[d]
		}
	}
	return less
}
