package policy

import (
	"fmt"
	"slices"
	"time"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/schemas"
)

// Question asks for one decision over one artifact.
type Question struct {
	Decision string          // accept, deliver, redistribute
	Class    string          // the policy's class that the artifact claims to be
	Artifact godigest.Digest // sha256 of the file
	Policy   godigest.Digest // sha256 of the policy's bytes; earlier decisions must name it
	// At is the moment of asking, against which freshness is judged. Nothing here
	// reads a clock: a rule that needs the moment and has none makes the question an error.
	At time.Time
}

// Reason is what one rule found: the value, the bound, and the claim it came from.
type Reason struct {
	Rule    string          `json:"rule"`
	What    string          `json:"what"`
	Verdict schemas.Verdict `json:"verdict"`
	Got     string          `json:"got"`
	Want    string          `json:"want"`
	Claim   godigest.Digest `json:"claim,omitempty"` // PAE digest
}

func (r Reason) String() string {
	return fmt.Sprintf("%s: %s: %s: got %s, want %s", r.Rule, r.What, r.Verdict, r.Got, r.Want)
}

// Decision is the answer: the worst verdict of its reasons, failed before undecided before passed.
type Decision struct {
	Decision string          `json:"decision"`
	Class    string          `json:"class"`
	Artifact godigest.Digest `json:"artifact"`
	Policy   godigest.Digest `json:"policy"`
	At       time.Time       `json:"at,omitzero"` // the moment of asking
	Verdict  schemas.Verdict `json:"verdict"`
	Reasons  []Reason        `json:"reasons"`
	// Claims are the bundle digests of every claim that the decision rests on, in log order.
	Claims []godigest.Digest `json:"claims"`
}

// Failures lists the reasons that are not passed.
func (d Decision) Failures() []Reason {
	var list []Reason
	for _, r := range d.Reasons {
		if r.Verdict != schemas.Passed {
			list = append(list, r)
		}
	}
	return list
}

// Decide answers a question. An error means that the question itself makes no
// sense (an invalid policy, an unknown decision or class); everything about the
// evidence is a reason.
func Decide(p schemas.Policy, ev Evidence, q Question) (Decision, error) {
	if err := Check(p); err != nil {
		return Decision{}, err
	}
	rule, ok := p.Decisions[q.Decision]
	if !ok {
		return Decision{}, fmt.Errorf("decision %q: the policy %q has none of that name; it has %v", q.Decision, p.Name, sortedKeys(p.Decisions))
	}
	class, ok := p.Classes[q.Class]
	if !ok {
		return Decision{}, fmt.Errorf("class %q: the policy %q has none of that name; it has %v", q.Class, p.Name, sortedKeys(p.Classes))
	}
	for what, d := range map[string]godigest.Digest{"artifact": q.Artifact, "policy": q.Policy} {
		if d.Validate() != nil || d.Algorithm() != godigest.SHA256 {
			return Decision{}, fmt.Errorf("decision %q: the %s's digest: got %q, want sha256", q.Decision, what, d)
		}
	}
	if q.At.IsZero() && slices.ContainsFunc(rule.Requires, func(r string) bool { return needsMoment[r] }) {
		return Decision{}, fmt.Errorf("decision %q: its rules judge ages, and the question gives no moment to judge them at", q.Decision)
	}
	ev, err := ev.ordered()
	if err != nil {
		return Decision{}, err
	}
	in := newInquiry(p, class, rule, ev, q)
	d := Decision{Decision: q.Decision, Class: q.Class, Artifact: q.Artifact, Policy: q.Policy, At: q.At, Verdict: schemas.Passed, Reasons: slices.Clone(in.notes)}
	// Standing looks at all that the others rest on, wherever it is listed.
	names := slices.DeleteFunc(slices.Clone(rule.Requires), func(name string) bool { return name == "standing" })
	if len(names) < len(rule.Requires) {
		names = append(names, "standing")
	}
	for _, name := range names {
		reasons := rules[name](in)
		if len(reasons) == 0 {
			reasons = []Reason{{What: "nothing was looked at", Verdict: schemas.Undecided, Got: "no evidence", Want: "evidence"}}
		}
		for _, r := range reasons {
			r.Rule = name
			d.Reasons = append(d.Reasons, r)
		}
	}
	for _, r := range d.Reasons {
		d.Verdict = worst(d.Verdict, r.Verdict)
	}
	d.Claims = in.usedClaims()
	return d, nil
}

func worst(a, b schemas.Verdict) schemas.Verdict {
	switch {
	case a == schemas.Failed || b == schemas.Failed:
		return schemas.Failed
	case a == schemas.Passed && b == schemas.Passed:
		return schemas.Passed
	}
	return schemas.Undecided
}

func passed(what, got, want string, claim godigest.Digest) Reason {
	return Reason{What: what, Verdict: schemas.Passed, Got: got, Want: want, Claim: claim}
}

func failed(what, got, want string, claim godigest.Digest) Reason {
	return Reason{What: what, Verdict: schemas.Failed, Got: got, Want: want, Claim: claim}
}

func undecided(what, got, want string) Reason {
	return Reason{What: what, Verdict: schemas.Undecided, Got: got, Want: want}
}

// from gives a reason the claim that it came from.
func (r Reason) from(claim godigest.Digest) Reason {
	r.Claim = claim
	return r
}
