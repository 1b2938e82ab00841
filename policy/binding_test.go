package policy_test

import (
	"testing"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

// A good number that was measured on the source does not stand for the artifact's.
func TestAGateIsNotMetByAnotherFilesNumber(t *testing.T) {
	w := newWorld(t)
	metric("q8-evaluated", 1, "kl_mean", nil)(t, w)
	elsewhere := policytest.Report("divergence", policytest.Snapshot)
	elsewhere.Metrics = []schemas.Metric{{Name: "kl_mean", Unit: "nats", Value: 0, Identity: map[string]string{"domain": "real-ids"}}}
	inspected := w.Step(t, "source-inspected")
	inspected.Reports = append(inspected.Reports, elsewhere)
	check(t, decide(t, w, w.Sign(t).Evidence, policy.Accept), schemas.Undecided,
		want{"gates", schemas.Undecided, "no metric kl_mean of kernel divergence"})
}

// An importance matrix from nowhere is not this model's.
func TestASideRunMustHaveTakenSomethingOfThePath(t *testing.T) {
	matrix := policy.NamedDigest{Name: "model.imatrix", Digest: godigest.FromString("importance")}
	for name, c := range map[string]struct {
		inputs  []policy.NamedDigest
		verdict schemas.Verdict
		wants   []want
	}{
		"of the model": {[]policy.NamedDigest{policytest.In("model", policytest.BF16)}, schemas.Passed, nil},
		"of nothing":   {nil, schemas.Undecided, []want{{"chain", schemas.Undecided, "inputs of matrix (calibrate): undecided: got none"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			class := w.Policy.Classes[policytest.Class]
			class.Side = []string{"calibrate"}
			w.Policy.Classes[policytest.Class] = class
			calibrate := *w.Step(t, "bf16")
			calibrate.Name, calibrate.Uses, calibrate.Inputs, calibrate.Outputs = "matrix", "calibrate", c.inputs, []policy.NamedDigest{matrix}
			w.Step(t, "q8").Inputs = append(w.Step(t, "q8").Inputs, policytest.In("imatrix", matrix))
			w.Add(t, "bf16", &calibrate)
			check(t, decide(t, w, w.Sign(t).Evidence, policy.Accept), c.verdict, c.wants...)
		})
	}
}

// What a completion lists must be there.
func TestACompletionListsWhatIsHere(t *testing.T) {
	w := newWorld(t)
	lone := *w.Step(t, "q8-reloaded")
	lone.Name, lone.Inputs = "another-reload", []policy.NamedDigest{policytest.In("artifact", policytest.BF16)}
	w.Steps = append([]*policytest.Step{&lone}, w.Steps...)
	signed := w.Sign(t)
	check(t, decide(t, w, signed.Evidence, policy.Redistribute), schemas.Passed)
	signed.Claims = signed.Claims[1:]
	check(t, decide(t, w, signed.Evidence, policy.Redistribute), schemas.Undecided,
		want{"completed", schemas.Undecided, "which is not in the evidence"})
	w.Add(t, "", policytest.Withdrawal("back", "another-reload", "another file", policytest.Gatekeeper))
	check(t, decide(t, w, w.Sign(t).Evidence, policy.Redistribute), schemas.Failed,
		want{"completed", schemas.Failed, "withdrawn: another file"})
}

// Fixtures that ran without a count of those that passed are not hidden by a better report.
func TestUncountedFixturesAreNotHidden(t *testing.T) {
	w := newWorld(t)
	again := *w.Step(t, "q8-evaluated")
	uncounted := policytest.Report("evaluate", policytest.Artifact)
	uncounted.Metrics = []schemas.Metric{{Name: "fixtures_total", Unit: "fixtures", Value: 9, Identity: map[string]string{"kind": "thinking"}}}
	again.Name, again.Reports = "again", []*schemas.Report{uncounted, again.Reports[1]}
	w.Add(t, "q8-evaluated", &again)
	check(t, decide(t, w, w.Sign(t).Evidence, policy.Accept), schemas.Undecided,
		want{"coverage", schemas.Undecided, "only one of fixtures_total and fixtures_passed"})
}

// An acceptance run that its signer took back names no class.
func TestAWithdrawnAcceptanceNamesNoClass(t *testing.T) {
	w := newWorld(t)
	again := *w.Step(t, "q8-accepted")
	again.Name, again.With = "mistaken", map[string]any{"class": "4-bit"}
	w.Add(t, "q8-accepted", &again)
	class := func(want string) {
		t.Helper()
		if got, err := policy.ClassOf(w.Policy, w.Sign(t).Claims, policytest.Artifact.Digest); err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	class("4-bit")
	w.Add(t, "", policytest.Withdrawal("taken-back", "mistaken", "the wrong class", policytest.Gatekeeper))
	class(policytest.Class)
}
