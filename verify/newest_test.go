package verify_test

import (
	"strings"
	"testing"
	"time"

	testresult "github.com/in-toto/attestation/go/predicates/test_result/v0"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/fixtures"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/verify/evidence"
)

// reviewing wants the second person to have reviewed the artifact.
func reviewing(t *testing.T, steps ...*policytest.Step) *delivery {
	t.Helper()
	w := policytest.New(t, strings.NewReplacer(
		"\nsigners:", "\nreviewers: {functionaries: [second], threshold: 1}\nsigners:",
		"completed, notices, standing]", "completed, notices, standing, review]",
	).Replace(fixtures.Policy))
	w.Add(t, "", steps...)
	d := deliver(t, w)
	loosen(d)
	d.WithoutLog = true
	return d
}

func at(s *policytest.Step, after time.Duration) *policytest.Step {
	s.At = policytest.Now.Add(after)
	return s
}

// Loose bundles come in the order in which whoever hands them over likes them.
func TestALaterReviewCountsInAnyOrder(t *testing.T) {
	yes := at(policytest.Review("yes", policytest.Second, schemas.Passed), 0)
	no := at(policytest.Review("no", policytest.Second, schemas.Failed), time.Minute)
	for _, steps := range [][]*policytest.Step{{yes, no}, {no, yes}} {
		want(t, reviewing(t, steps...).verify(t), schemas.Failed, "review", schemas.Failed, "failed: read the report")
	}
	want(t, reviewing(t, yes).verify(t), schemas.Passed, "review", schemas.Passed)
}

func TestLooseBundlesSayWhenTheyWereMade(t *testing.T) {
	for name, c := range map[string]struct {
		step  *policytest.Step
		words string
	}{
		"a review to come":      {at(policytest.Review("yes", policytest.Second, schemas.Passed), 48*time.Hour), "which is after now"},
		"an acceptance to come": {at(policytest.Summary("anew", "PASSED", nil), 48*time.Hour), "which is after now"},
	} {
		t.Run(name, func(t *testing.T) {
			d := reviewing(t, policytest.Review("r", policytest.Second, schemas.Passed), c.step)
			want(t, d.verify(t), schemas.Failed, "signatures", schemas.Failed, c.words)
		})
	}
}

// Another log that copied an entry later says nothing of when it was said first.
func TestALaterCopyElsewhereDoesNotMakeAWordNewer(t *testing.T) {
	w := policytest.New(t, fixtures.Policy)
	w.Add(t, "", policytest.Summary("refused", "FAILED", nil))
	d := deliver(t, w)
	want(t, d.verify(t), schemas.Failed, "accepted", schemas.Failed, "the newest decision is FAILED")

	other, key := logAt(t, "example.com/other", policytest.Now.Add(time.Minute))
	d.Logs = append(d.Logs, key)
	d.Package.Vouched = make([][]byte, len(d.Package.Bundles))
	for i, bundle := range d.Package.Bundles {
		entry, err := other.Append(t.Context(), bundle)
		if err != nil {
			t.Fatal(err)
		}
		if entry.Leaf.PredicateType != attest.VSAType {
			continue
		}
		checkpoint, err := other.Checkpoint(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d.Package.Vouched[i], err = other.Prove(t.Context(), entry.Index, checkpoint); err != nil {
			t.Fatal(err)
		}
		d.Package.Index.Entries[i].Imported = &evidence.Imported{Origin: "example.com/other", Leaf: entry.Leaf}
		break // the acceptance, not the refusal
	}
	want(t, d.verify(t), schemas.Failed, "signatures", schemas.Failed, "after it was appended here")
}

// Whoever hands the evidence over may leave the bad report out, and the refusal.
func TestAnAcceptanceThatNobodySignedIsNone(t *testing.T) {
	w := policytest.New(t, fixtures.Policy)
	d := deliver(t, w)
	d.Decision, d.Input.Policy = policy.Accept, d.Package.Policy
	want(t, d.verify(t), schemas.Passed, "accepted", schemas.Passed, "PASSED by gatekeeper")
	w.Drop(t, "q8-summary")
	d = deliver(t, w)
	d.Decision, d.Input.Policy = policy.Accept, d.Package.Policy
	want(t, d.verify(t), schemas.Undecided, "accepted", schemas.Undecided, "no summary by gatekeeper")
}

// Somebody whom the policy lets sign nothing gives the file no other name.
func TestOnlyWhomTheDecisionRestsOnNamesTheFile(t *testing.T) {
	w := policytest.New(t, fixtures.Policy)
	w.Add(t, "", &policytest.Step{Name: "renamed", By: []string{policytest.Stranger}, State: func(t testing.TB, _ *policytest.World, _ *policytest.Signed) *attest.Statement {
		s, err := attest.NewStatement([]*attest.ResourceDescriptor{policytest.Descriptor("model-F16.gguf", policytest.Artifact.Digest)},
			attest.TestResultType, &testresult.TestResult{Result: "PASSED", Configuration: []*attest.ResourceDescriptor{policytest.Descriptor("anything", policytest.BF16.Digest)}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}})
	d := deliver(t, w)
	want(t, d.verify(t), schemas.Passed, "name", schemas.Passed)
	d.Input.Name, d.Package.Index.File.Name = "model-F16.gguf", "model-F16.gguf"
	want(t, d.verify(t), schemas.Failed, "decision", schemas.Failed, `one that a claim binds on which the decision rests: ["model-Q8_0.gguf"]`)
}
