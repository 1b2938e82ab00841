package policy

import (
	"fmt"
	"slices"
	"time"

	vsa "github.com/in-toto/attestation/go/predicates/vsa/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/schemas"
)

// Evidence besides stage runs whose age a policy may bound.
const (
	freshAcceptance = "acceptance"
	freshReview     = "review"
	freshWitnesses  = "witnesses"
)

// ruleFresh holds the age of evidence against the policy's bounds. What is
// exactly as old as the bound is too old. Every requirement is judged by the
// newest evidence that meets it (where so many people or witnesses must have
// spoken, by as many), and each claim by the oldest time that is known of it:
// when its Statement says the work ended, when a timestamp vouches for, when the
// log took it in. A time to come is a fault.
func ruleFresh(in *inquiry) []Reason {
	var reasons []Reason
	for _, name := range sortedKeys(in.policy.Fresh) {
		bound, err := hours(in.policy.Fresh[name])
		if err != nil {
			return []Reason{undecided("age of "+name, err.Error(), "hours")}
		}
		found := in.dated(name)
		if len(found) == 0 {
			reasons = append(reasons, undecided("age of "+name, "nothing of the kind", "younger than "+string(in.policy.Fresh[name])))
		}
		for _, d := range found {
			reasons = append(reasons, in.judgeAge(d, bound))
		}
	}
	return reasons
}

// dated is one requirement with the times of the claims that meet it. So many
// of the speakers must have spoken lately.
type dated struct {
	what  string
	times []claimTime
	need  int
}

type claimTime struct {
	by    string
	claim attest.Claim // the zero claim for a cosignature
	at    time.Time    // zero when unknown
}

// newest is the time by which as many speakers as are needed had spoken last.
func (d dated) newest() claimTime {
	bySpeaker := map[string]claimTime{}
	for _, t := range d.times {
		if t.at.After(bySpeaker[t.by].at) {
			bySpeaker[t.by] = t
		}
	}
	var list []claimTime
	for _, name := range sortedKeys(bySpeaker) {
		list = append(list, bySpeaker[name])
	}
	slices.SortStableFunc(list, func(a, b claimTime) int { return b.at.Compare(a.at) })
	if len(list) < d.need {
		return claimTime{}
	}
	return list[d.need-1]
}

func (in *inquiry) judgeAge(d dated, bound time.Duration) Reason {
	what, want := "age of "+d.what, "younger than "+bound.String()
	newest := d.newest()
	r := Reason{What: what, Verdict: schemas.Undecided, Got: "no time is known of it", Want: want}
	if newest.claim.Valid() {
		r.Claim = newest.claim.PAE()
	}
	if newest.at.IsZero() {
		return r
	}
	age := in.q.At.Sub(newest.at)
	r.Got = fmt.Sprintf("%s (%s)", age.Round(time.Second), newest.at.UTC().Format(time.RFC3339))
	switch {
	case age < 0:
		r.Verdict, r.Got = schemas.Failed, r.Got+", which is to come"
	case age >= bound:
		r.Verdict = schemas.Failed
	default:
		r.Verdict = schemas.Passed
	}
	return r
}

// dated lists what a name of the policy's ages is about: each step of the path
// and each examination of that stage type, by itself.
func (in *inquiry) dated(name string) []dated {
	switch name {
	case freshAcceptance:
		return in.claimsDated(name, in.policy.Decisions[Accept].SignerRule, attest.VSAType, summaryTime, func(attest.Claim) bool { return true })
	case freshReview:
		makers, keys := in.makers()
		return in.claimsDated(name, *in.policy.Reviewers, schemas.ReviewURI, reviewTime, func(c attest.Claim) bool {
			return !makers[c.Functionary()] && !keys[c.Key()] // a review that counts for nothing makes none young
		})
	case freshWitnesses:
		d := dated{what: "the witnesses' cosignatures", need: in.policy.Witnesses.Threshold}
		for _, c := range in.ev.Witnesses {
			if slices.Contains(in.policy.Witnesses.Names, c.Name) {
				d.times = append(d.times, claimTime{by: c.Name, at: c.Time})
			}
		}
		if d.times == nil {
			return nil
		}
		return []dated{d}
	}
	var list []dated
	add := func(what string, runs ...*Run) {
		d := dated{what: what, need: 1}
		for _, run := range runs {
			d.times = append(d.times, in.runTimes(run)...)
		}
		if len(runs) > 0 {
			list = append(list, d)
		}
	}
	for _, run := range append(slices.Clone(in.path), in.side...) {
		if run != nil && run.Uses == name {
			add(run.name(), run)
		}
	}
	for _, c := range in.checks {
		if c.rule.Uses == name {
			add(name+" of the "+c.rule.Of, c.runs...)
		}
	}
	if run := in.newest(name); (name == "deliver" || name == "reload") && run != nil {
		add(run.name(), run)
	}
	return list
}

// runTimes gives the oldest known time of each claim of a run by those who may sign it.
func (in *inquiry) runTimes(run *Run) []claimTime {
	var list []claimTime
	for _, c := range run.Claims {
		if slices.Contains(in.policy.Signers[run.Uses].Functionaries, c.Functionary()) {
			list = append(list, claimTime{c.Functionary(), c, in.oldest(c, run.Finished)})
		}
	}
	return list
}

// claimsDated gathers the claims of a predicate type over the artifact by those who may make them.
func (in *inquiry) claimsDated(what string, rule schemas.SignerRule, predicateType string, said func(attest.Claim) time.Time, counts func(attest.Claim) bool) []dated {
	d := dated{what: what, need: rule.Threshold}
	for _, c := range in.claims {
		if c.PredicateType() == predicateType && subjectHas(c, in.q.Artifact) && slices.Contains(rule.Functionaries, c.Functionary()) && counts(c) {
			d.times = append(d.times, claimTime{c.Functionary(), c, in.oldest(c, said(c))})
		}
	}
	if d.times == nil {
		return nil
	}
	return []dated{d}
}

// oldest is the oldest of the times that are known of a claim, zero without any.
func (in *inquiry) oldest(c attest.Claim, said time.Time) time.Time {
	oldest := said
	for _, t := range []time.Time{c.SignedAt(), in.ev.Places[c.Bundle()].Appended} {
		if !t.IsZero() && (oldest.IsZero() || t.Before(oldest)) {
			oldest = t
		}
	}
	return oldest
}

func summaryTime(c attest.Claim) time.Time {
	var s vsa.VerificationSummary
	if protojson.Unmarshal(c.Predicate(), &s) != nil || !s.GetTimeVerified().IsValid() {
		return time.Time{}
	}
	return s.GetTimeVerified().AsTime()
}

func reviewTime(c attest.Claim) time.Time {
	r, err := Review(c)
	if err != nil {
		return time.Time{}
	}
	return r.Reviewed
}

func hours(a schemas.Age) (time.Duration, error) {
	d, err := time.ParseDuration(string(a))
	if err != nil || d <= 0 || d%time.Hour != 0 {
		return 0, fmt.Errorf("got %q, want whole hours, e.g. 720h", a)
	}
	return d, nil
}
