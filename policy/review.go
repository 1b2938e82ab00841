package policy

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/schemas"
)

// Review reads a review claim; any other claim is an error.
func Review(c attest.Claim) (schemas.Review, error) {
	var r schemas.Review
	if c.PredicateType() != schemas.ReviewURI {
		return r, fmt.Errorf("claim %s: predicate type %s, want %s", c.PAE(), c.PredicateType(), schemas.ReviewURI)
	}
	err := schemas.DecodeJSON(schemas.ReviewURI, c.Predicate(), &r)
	return r, err
}

// ruleReview wants people whom the policy names as reviewers to have reviewed
// these bytes and passed them. The newest review of each counts. Who made the
// artifact, by name or by key, cannot review it. One reviewer's no is a no.
func ruleReview(in *inquiry) []Reason {
	rule := *in.policy.Reviewers
	want := fmt.Sprintf("%d of %s, none of whom made it", rule.Threshold, strings.Join(rule.Functionaries, ", "))
	makers, makerKeys := in.makers()
	newest := map[string]attest.Claim{}
	var others []string
	for _, c := range in.claims {
		switch {
		case c.PredicateType() != schemas.ReviewURI || !subjectHas(c, in.q.Artifact):
		case !slices.Contains(rule.Functionaries, c.Functionary()):
			others = append(others, c.Functionary())
		case makers[c.Functionary()] || makerKeys[c.Key()]:
			others = append(others, c.Functionary()+", who made it")
		default:
			newest[c.Functionary()] = c
		}
	}
	var reasons []Reason
	var good []attest.Claim
	for _, name := range sortedKeys(newest) {
		c := newest[name]
		what := "review by " + name
		review, err := Review(c)
		switch {
		case err != nil:
			reasons = append(reasons, Reason{What: what, Verdict: schemas.Undecided, Got: err.Error(), Want: "passed", Claim: c.PAE()})
		case review.Verdict != schemas.Passed:
			reasons = append(reasons, failed(what, string(review.Verdict)+": "+review.Note, "passed", c.PAE()))
		default:
			good = append(good, c)
			reasons = append(reasons, passed(what, "passed: "+review.Note, "passed", c.PAE()))
		}
	}
	in.usedVSA = append(in.usedVSA, good...)
	count := countSigners("reviewers", rule, good)
	count.Want = want
	if len(newest) == 0 {
		count = undecided("reviewers", "no review", want)
	}
	if len(others) > 0 {
		sort.Strings(others)
		count.Got += "; and not counted: " + strings.Join(others, "; ")
	}
	return append(reasons, count)
}

// makers are who signed a run that made the artifact or what it was made of, by
// name and by key. A run that the chain did not take in counts as well.
func (in *inquiry) makers() (names map[string]bool, keys map[godigest.Digest]bool) {
	names, keys = map[string]bool{}, map[godigest.Digest]bool{}
	for _, run := range in.runs {
		onPath := slices.Contains(in.path, run) || slices.Contains(in.side, run)
		if !onPath && (!run.makes(in.q.Artifact) || run.takes(in.q.Artifact)) {
			continue
		}
		for _, c := range run.Claims {
			names[c.Functionary()], keys[c.Key()] = true, true
		}
	}
	return names, keys
}
