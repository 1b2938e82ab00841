package policy

import (
	"fmt"
	"slices"

	vsa "github.com/in-toto/attestation/go/predicates/vsa/v1"
	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/schemas"
)

// ruleStanding wants nothing to have been taken back that the decision rests on,
// and no better artifact to have been named in the place of one on the path.
//
// From evidence alone nobody can tell that a withdrawal was left out; the log
// can. Where the policy says wholeLog, every entry of the log must be here: taking
// any entry away then takes the yes away too.
func ruleStanding(in *inquiry) []Reason {
	const what, want = "claims that the decision rests on", "none withdrawn"
	var reasons []Reason
	rests := in.rests()
	for _, c := range in.ev.Claims {
		if w, gone := in.withdrawn[c.PAE()]; gone && rests[c.PAE()] {
			reasons = append(reasons, failed(what, "withdrawn: "+w.Reason, want, c.PAE()))
		}
	}
	switch {
	case len(rests) == 0:
		reasons = append(reasons, undecided(what, "none", "some, and "+want))
	case len(reasons) == 0:
		reasons = append(reasons, passed(what, fmt.Sprintf("%d, none withdrawn", len(rests)), want, ""))
	}
	return append(append(reasons, in.superseded()...), in.looked())
}

// looked tells how much of the log was looked at.
func (in *inquiry) looked() Reason {
	const what = "how much of the log was looked at"
	got := fmt.Sprintf("%d of %d entries", len(in.ev.Claims), in.ev.Size)
	if in.ev.Size == 0 {
		got = "some; how long the log is, nobody vouches"
	}
	if !in.policy.Standing.WholeLog {
		return passed(what, got, "what the evidence holds", "")
	}
	if !in.ev.whole() {
		return undecided(what, got, "all entries: a withdrawal may have been left out")
	}
	return passed(what, got, "all entries", "")
}

// superseded names every output of the path in whose place a withdrawal names another.
func (in *inquiry) superseded() []Reason {
	var reasons []Reason
	for _, c := range in.ev.Claims {
		w, gone := in.withdrawn[c.PAE()]
		if !gone || w.Successor == "" {
			continue
		}
		for _, d := range in.outputs() {
			if d != w.Successor && makesOrDecides(c) && subjectHas(c, d) {
				reasons = append(reasons, failed("successor of "+d.String(), w.Successor.String()+": "+w.Reason, "none: this one is to be used", c.PAE()))
			}
		}
	}
	return reasons
}

// makesOrDecides leaves out examinations: a test that was made anew supersedes no artifact.
func makesOrDecides(c attest.Claim) bool {
	return c.PredicateType() == attest.ProvenanceType || c.PredicateType() == attest.VSAType
}

// outputs are the artifact and what it was made from, along the path.
func (in *inquiry) outputs() []godigest.Digest {
	list := []godigest.Digest{in.q.Artifact}
	for _, run := range in.path {
		if run == nil {
			continue
		}
		for _, d := range run.Inputs {
			if d.Digest != "" && !slices.Contains(list, d.Digest) {
				list = append(list, d.Digest)
			}
		}
	}
	return list
}

// rests gives the PAE digests of the claims that the decision rests on, and of
// those that these decisions and completions say that they rest on.
func (in *inquiry) rests() map[godigest.Digest]bool {
	rests := map[godigest.Digest]bool{}
	for _, run := range in.usedRuns() {
		rests[run.PAE()] = true
	}
	byBundle := map[string]godigest.Digest{}
	for _, c := range in.ev.Claims {
		byBundle[c.Bundle().Encoded()] = c.PAE()
	}
	for _, c := range in.usedVSA {
		rests[c.PAE()] = true
		var s vsa.VerificationSummary
		if c.PredicateType() != attest.VSAType || protojson.Unmarshal(c.Predicate(), &s) != nil {
			continue
		}
		for _, a := range s.GetInputAttestations() {
			if pae, ok := byBundle[a.GetDigest()["sha256"]]; ok {
				rests[pae] = true
			}
		}
	}
	return rests
}

// ruleWitnesses wants so many of the witnesses that the policy names to have cosigned the log's checkpoint.
func ruleWitnesses(in *inquiry) []Reason {
	rule := *in.policy.Witnesses
	const what = "witnesses of the log's checkpoint"
	want := fmt.Sprintf("%d of %v", rule.Threshold, rule.Names)
	seen := map[string]bool{}
	var others []string
	for _, c := range in.ev.Witnesses {
		switch {
		case !slices.Contains(rule.Names, c.Name):
			others = append(others, c.Name)
		case c.Time.IsZero() || c.Time.After(in.q.At):
			others = append(others, fmt.Sprintf("%s, dated %s", c.Name, c.Time.UTC()))
		default:
			seen[c.Name] = true
		}
	}
	got := fmt.Sprint(sortedKeys(seen))
	if len(others) > 0 {
		slices.Sort(others)
		got += fmt.Sprintf(" and, not counted, %v", slices.Compact(others))
	}
	r := Reason{What: what, Verdict: schemas.Passed, Got: got, Want: want}
	switch {
	case len(seen) >= rule.Threshold:
	case len(in.ev.Witnesses) == 0:
		r.Verdict, r.Got = schemas.Undecided, "no cosignatures"
	default:
		r.Verdict = schemas.Failed
	}
	return []Reason{r}
}
