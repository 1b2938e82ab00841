package evidence_test

import (
	"slices"
	"testing"

	vsa "github.com/in-toto/attestation/go/predicates/vsa/v1"
	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/fixtures"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/verify/evidence"
)

// TestSelectPicksWhatTheArtifactNeeds lays a second quantization and a
// stranger's files beside the artifact's chain.
func TestSelectPicksWhatTheArtifactNeeds(t *testing.T) {
	w := policytest.New(t, fixtures.Policy)
	q6 := policy.NamedDigest{Name: "model-Q6_K.gguf", Digest: godigest.FromString("six bits a weight")}
	passed := schemas.Result{Schema: schemas.ResultURI, Verdict: schemas.Passed, Facts: map[string]string{}}
	producer := []string{policytest.Producer}
	in := func(files ...policy.NamedDigest) []policy.NamedDigest { return files }
	others := []*policytest.Step{
		{Name: "q6", Uses: "quantize", By: producer, Inputs: in(policytest.In("model", policytest.BF16)), Outputs: in(q6), Result: passed},
		{Name: "q6-derived", Uses: "derive", By: producer, Inputs: in(policytest.In("source", policytest.Snapshot), policytest.In("product", q6)), Result: passed},
		{Name: "q6-evaluated", Uses: "evaluate", By: producer, Inputs: in(policytest.In("model", q6), policytest.In("baseline", policytest.Baseline)), Result: passed},
		{Name: "q6-delivered", Uses: "deliver", By: producer, Inputs: in(policytest.In("artifact", q6)), Outputs: in(q6), Result: passed},
		policytest.Withdrawal("q6-back", "q6-evaluated", "another model", policytest.Producer),
	}
	mine := []*policytest.Step{
		{Name: "bf16-derived", Uses: "derive", By: producer, Inputs: in(policytest.In("source", policytest.Snapshot), policytest.In("product", policytest.BF16)), Result: passed},
		policytest.Withdrawal("q8-back", "q8-derived", "another model", policytest.Producer),
	}
	chain := slices.Clone(w.Steps)
	w.Add(t, "", others...)
	w.Add(t, "", mine...)
	s := w.Sign(t)
	// The summary of the chain must rest on its own claims only, as a real one does; it stands before the others.
	chosen := evidence.Select(s.Claims, policytest.Artifact.Digest)
	for _, step := range append(chain, mine...) {
		if !chosen[s.Claim(t, step.Name).Bundle()] {
			t.Errorf("%s is left out", step.Name)
		}
	}
	for _, step := range others {
		if chosen[s.Claim(t, step.Name).Bundle()] {
			t.Errorf("%s is another artifact's and is in the package", step.Name)
		}
	}
	if len(chosen) != len(chain)+len(mine) {
		t.Errorf("%d claims are chosen, want %d", len(chosen), len(chain)+len(mine))
	}
}

func TestSelectOfAnUnknownArtifactIsEmpty(t *testing.T) {
	s := policytest.New(t, fixtures.Policy).Sign(t)
	if chosen := evidence.Select(s.Claims, godigest.FromString("nobody's file")); len(chosen) != 0 {
		t.Errorf("%d claims are chosen for a file that no claim names", len(chosen))
	}
}

// TestWhatIsSelectedIsEnough decides over the selection alone.
func TestWhatIsSelectedIsEnough(t *testing.T) {
	w := policytest.New(t, fixtures.Policy)
	s := w.Sign(t)
	chosen := evidence.Select(s.Claims, policytest.Artifact.Digest)
	ev := policy.Evidence{Objects: s.Objects}
	for _, c := range s.Claims {
		if chosen[c.Bundle()] {
			ev.Claims = append(ev.Claims, c)
		}
	}
	d, err := policy.Decide(w.Policy, ev, policy.Question{Decision: policy.Redistribute, Class: policytest.Class, Artifact: policytest.Artifact.Digest, Policy: w.PolicyDigest()})
	if err != nil || d.Verdict != schemas.Passed {
		t.Errorf("got %s, %v: %v", d.Verdict, err, d.Failures())
	}
}

// What the tools were built from, the probes of their box and what was stated of
// them belong to the artifact before any decision names them; those of other
// tools and boxes do not.
func TestSelectTakesToolsAndTheirBoxAlong(t *testing.T) {
	w := policytest.New(t, fixtures.Policy)
	policytest.Tools(t, w)
	w.Drop(t, "q8-accepted", "q8-summary", "q8-delivered", "q8-reloaded", "given-back", "finished", "completion")
	other := policy.NamedDigest{Name: "other-source/", Digest: godigest.FromString("another tool's source")}
	w.Add(t, "", &policytest.Step{Name: "other-source", Uses: "patch", By: []string{policytest.Producer}, Outputs: []policy.NamedDigest{other}, Result: schemas.Result{Schema: schemas.ResultURI, Verdict: schemas.Passed, Facts: map[string]string{}}})
	s := w.Sign(t)
	chosen := evidence.Select(s.Claims, policytest.Artifact.Digest)
	ev := policy.Evidence{Objects: s.Objects}
	for _, c := range s.Claims {
		if chosen[c.Bundle()] {
			ev.Claims = append(ev.Claims, c)
		}
	}
	if len(ev.Claims) != len(s.Claims)-1 || chosen[s.Claim(t, "other-source").Bundle()] {
		t.Errorf("%d of %d claims are chosen, want all but another tool's source", len(ev.Claims), len(s.Claims))
	}
	d, err := policy.Decide(w.Policy, ev, policy.Question{Decision: policy.Accept, Class: policytest.Class, Artifact: policytest.Artifact.Digest, Policy: w.PolicyDigest()})
	if err != nil || d.Verdict != schemas.Passed {
		t.Errorf("got %s, %v: %v", d.Verdict, err, d.Failures())
	}
}

// TestSelectFollowsDecisionsToTheirEnd takes along what a decision rests on by
// way of a decision over another artifact.
func TestSelectFollowsDecisionsToTheirEnd(t *testing.T) {
	w := policytest.New(t, fixtures.Policy)
	q6 := policy.NamedDigest{Name: "model-Q6_K.gguf", Digest: godigest.FromString("six bits a weight")}
	lone := &policytest.Step{
		Name: "q6", Uses: "quantize", By: []string{policytest.Producer}, Inputs: []policy.NamedDigest{policytest.In("model", policytest.BF16)}, Outputs: []policy.NamedDigest{q6},
		Result: schemas.Result{Schema: schemas.ResultURI, Verdict: schemas.Passed, Facts: map[string]string{}},
	}
	onLast := func(p *vsa.VerificationSummary) {
		p.InputAttestations = p.InputAttestations[len(p.InputAttestations)-1:]
	}
	other := policytest.Summary("q6-summary", "PASSED", onLast)
	state := other.State
	other.State = func(t testing.TB, w *policytest.World, s *policytest.Signed) *attest.Statement {
		st := state(t, w, s)
		st.Subject = []*attest.ResourceDescriptor{policytest.Descriptor(q6.Name, q6.Digest)}
		return st
	}
	w.Add(t, "", lone, other)
	s := w.Sign(t)
	if evidence.Select(s.Claims, policytest.Artifact.Digest)[s.Claim(t, "q6").Bundle()] {
		t.Fatal("q6 is another artifact's and is in the package")
	}
	w.Add(t, "", policytest.Summary("late", "PASSED", onLast))
	s = w.Sign(t)
	chosen := evidence.Select(s.Claims, policytest.Artifact.Digest)
	for _, step := range []string{"late", "q6-summary", "q6"} {
		if !chosen[s.Claim(t, step).Bundle()] {
			t.Errorf("%s is left out", step)
		}
	}
}
