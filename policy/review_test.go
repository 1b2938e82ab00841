package policy_test

import (
	"testing"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

// reviewed wants one of two people to have reviewed the artifact.
func reviewed(t testing.TB, threshold int, steps ...*policytest.Step) *policytest.World {
	t.Helper()
	w := newWorld(t)
	w.Policy.Reviewers = &schemas.SignerRule{Functionaries: []string{policytest.Second, policytest.Stranger}, Threshold: threshold}
	requireMore(w, policy.Redistribute, "review")
	w.Add(t, "", steps...)
	return w
}

func TestAPersonReviewsTheArtifact(t *testing.T) {
	passed, failed, undecided := schemas.Passed, schemas.Failed, schemas.Undecided
	second, stranger := policytest.Second, policytest.Stranger
	yes := func(name, by string) *policytest.Step { return policytest.Review(name, by, passed) }
	no := func(name, by string) *policytest.Step { return policytest.Review(name, by, failed) }
	for _, c := range []struct {
		name      string
		threshold int
		steps     []*policytest.Step
		verdict   schemas.Verdict
		words     string
	}{
		{"one of two", 1, []*policytest.Step{yes("r", second)}, passed, "reviewers: passed: got 1 of them: second"},
		{"nobody", 1, nil, undecided, "reviewers: undecided: got no review, want 1 of second, stranger, none of whom made it"},
		{"the producer's own", 1, []*policytest.Step{yes("r", policytest.Producer)}, undecided, "got no review; and not counted: producer"},
		{"the gatekeeper, who is no reviewer", 1, []*policytest.Step{yes("r", policytest.Gatekeeper)}, undecided, "not counted: gatekeeper"},
		{"one where two are wanted", 2, []*policytest.Step{yes("r", second)}, failed, "got 1 of them: second"},
		{"one person twice where two are wanted", 2, []*policytest.Step{yes("r", second), yes("r2", second)}, failed, "got 1 of them: second"},
		{"two where two are wanted", 2, []*policytest.Step{yes("r", second), yes("r2", stranger)}, passed, "got 2 of them: second, stranger"},
		{"a no", 1, []*policytest.Step{no("r", second)}, failed, "review by second: failed: got failed: read the report"},
		{"a no beside a yes", 1, []*policytest.Step{yes("r", second), no("r2", stranger)}, failed, "review by stranger: failed"},
		{"a yes that was taken back by a later no", 1, []*policytest.Step{yes("r", second), no("r2", second)}, failed, "review by second: failed"},
		{"a no that was overcome by a later yes", 1, []*policytest.Step{no("r", second), yes("r2", second)}, passed, "review by second: passed"},
		{"a yes withdrawn", 1, []*policytest.Step{yes("r", second), policytest.Withdrawal("w", "r", "too hasty", second)}, undecided, "got no review"},
		{"a no withdrawn by the one who said it", 1, []*policytest.Step{no("r", second), policytest.Withdrawal("w", "r", "please", second), yes("r2", stranger)}, failed, "review by second: failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := reviewed(t, c.threshold, c.steps...)
			check(t, decide(t, w, w.Sign(t).Evidence, policy.Redistribute), c.verdict, want{"review", c.verdict, c.words})
		})
	}
	t.Run("a review of other bytes", func(t *testing.T) {
		review := yes("r", second)
		of := review.State
		review.State = func(t testing.TB, w *policytest.World, s *policytest.Signed) *attest.Statement {
			st := of(t, w, s)
			st.Subject = []*attest.ResourceDescriptor{policytest.Descriptor(policytest.Artifact.Name, policytest.BF16.Digest)}
			return st
		}
		w := reviewed(t, 1, review)
		check(t, decide(t, w, w.Sign(t).Evidence, policy.Redistribute), undecided, want{"review", undecided, "got no review"})
	})
	t.Run("a reviewer who also made it", func(t *testing.T) {
		w := reviewed(t, 1, yes("r", second))
		w.Step(t, "q8").By = []string{policytest.Producer, second}
		check(t, decide(t, w, w.Sign(t).Evidence, policy.Redistribute), undecided, want{"review", undecided, "not counted: second, who made it"})
	})
	t.Run("a reviewer with the producer's key", func(t *testing.T) {
		w := reviewed(t, 1, yes("r", policytest.Alias))
		w.Policy.Reviewers.Functionaries = []string{policytest.Alias}
		check(t, decide(t, w, w.Sign(t).Evidence, policy.Redistribute), undecided, want{"review", undecided, "not counted: alias, who made it"})
	})
}
