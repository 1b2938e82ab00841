package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/schemas"
)

// noCompute is what a completion says where nothing was rented.
const noCompute = "none rented"

// judgeFinished wants every claim that a completion lists to be here and not
// withdrawn: a sender cannot leave out what the run is said to have finished with.
func (in *inquiry) judgeFinished(what, want string, done schemas.Completion, c attest.Claim) *Reason {
	for _, pae := range done.Finished {
		if w, gone := in.withdrawn[pae]; gone {
			r := failed(what, fmt.Sprintf("it lists claim %s, withdrawn: %s", pae, w.Reason), want, c.PAE())
			return &r
		}
		if f, fell := in.fallen[pae]; fell {
			r := failed(what, fmt.Sprintf("it lists claim %s: %s", pae, f), want, c.PAE())
			return &r
		}
		if !slices.ContainsFunc(in.claims, func(other attest.Claim) bool { return other.PAE() == pae }) {
			return &Reason{What: what, Verdict: schemas.Undecided, Got: "it lists claim " + pae.String() + ", which is not in the evidence", Want: want, Claim: c.PAE()}
		}
	}
	return nil
}

// ruleCompleted wants the newest completion over the artifact, by those who may
// sign stage type complete, to have been stated under this very policy, and
// everything that it lists to be here.
func ruleCompleted(in *inquiry) []Reason {
	const what = "completion"
	rule := in.policy.Signers["complete"]
	want := fmt.Sprintf("the run is said to be finished under policy %s, by %s", in.q.Policy, strings.Join(rule.Functionaries, ", "))
	var claims []attest.Claim
	var last *Reason
	var newest schemas.Completion
	for _, c := range in.claims {
		if c.PredicateType() != attest.CompletionType || !subjectHas(c, in.q.Artifact) || !slices.Contains(rule.Functionaries, c.Functionary()) {
			continue
		}
		last = nil
		var done schemas.Completion
		if err := schemas.DecodeJSON(schemas.CompletionURI, c.Predicate(), &done); err != nil {
			last = &Reason{What: what, Verdict: schemas.Undecided, Got: err.Error(), Want: want, Claim: c.PAE()}
		} else if done.Policy != in.q.Policy {
			other := failed(what, "finished under policy "+done.Policy.String(), want, c.PAE())
			last = &other
		} else {
			last = in.judgeFinished(what, want, done, c)
			for _, judge := range []func(string, string, schemas.Completion, attest.Claim) *Reason{in.judgeCompute, in.judgeDelivered, in.judgeRecord} {
				if last == nil {
					last = judge(what, want, done, c)
				}
			}
		}
		if last != nil {
			claims = nil
			continue
		}
		claims, newest = append(claims, c), done
	}
	switch {
	case last != nil:
		return []Reason{*last}
	case len(claims) == 0:
		return []Reason{undecided(what, "no claim", want)}
	}
	in.usedVSA = append(in.usedVSA, claims...)
	reasons := []Reason{countSigners(what, rule, claims)}
	if r := newest.Record; r != nil {
		got := fmt.Sprintf("%d outputs, %d examinations; not tested: %s", len(r.Outputs), len(r.Validation), strings.Join(r.NotTested, "; "))
		reasons = append(reasons, passed("record of the run", got, "what the claims that it lists say", claims[len(claims)-1].PAE()))
	}
	return reasons
}

// judgeCompute wants what a completion says of rented compute to be what the
// claims say: its release is one that counts and that passed, and nothing was
// rented only where the policy demands no release and nobody claims one.
func (in *inquiry) judgeCompute(what, want string, done schemas.Completion, c attest.Claim) *Reason {
	no := func(r Reason) *Reason { return &r }
	if done.Compute == noCompute {
		if in.policy.Released != nil {
			return no(failed(what, "it says that no compute was rented", "the release that the policy demands", c.PAE()))
		}
		return nil
	}
	pae := godigest.Digest(done.Compute)
	i := slices.IndexFunc(in.runs, func(r *Run) bool { return r.PAE() == pae })
	switch {
	case i < 0:
		return no(undecided(what, "it names the release "+done.Compute+", which is not in the evidence", want).from(c.PAE()))
	case in.runs[i].Uses != "release":
		return no(failed(what, "it names "+in.runs[i].name()+" as the release", "a release run", c.PAE()))
	case !in.sound(in.runs[i]):
		return no(failed(what, "it names "+in.runs[i].name()+", which is not signed as the policy wants, or did not pass", "a passed release", c.PAE()))
	case !slices.Contains(done.Finished, pae):
		return no(failed(what, "it does not list its own release", want, c.PAE()))
	}
	if newest := in.newestRelease(); newest != nil && !in.sound(newest) {
		return no(failed(what, "it names "+in.runs[i].name()+" as the release, and "+newest.name()+", which is newer, did not pass", "a passed release, the newest", c.PAE()))
	}
	if in.policy.Released != nil {
		if r := in.judgeRelease(in.runs[i]); r.Verdict != schemas.Passed {
			return &r
		}
	}
	in.use(in.runs[i])
	return nil
}

// judgeDelivered wants the artifact, by its digest, to be among what was delivered.
func (in *inquiry) judgeDelivered(what, want string, done schemas.Completion, c attest.Claim) *Reason {
	for _, f := range done.Delivered {
		if f.Digest == in.q.Artifact {
			return nil
		}
	}
	r := failed(what, "the artifact is not among what it says was delivered", want, c.PAE())
	return &r
}

// judgeRecord reads the record anew from the claims that the completion lists,
// and wants it to be the same: nothing left out, nothing added, nothing changed.
// What is in no claim, the metadata of the files, is left aside.
func (in *inquiry) judgeRecord(what, want string, done schemas.Completion, c attest.Claim) *Reason {
	no := func(r Reason) *Reason { return &r }
	if done.Record == nil {
		if rule := in.policy.Completed; rule != nil && rule.Record {
			return no(failed(what, "it holds no record of what the run was made of", "the record", c.PAE()))
		}
		return nil
	}
	differing, err := in.recordDiffers(done)
	if err != nil {
		return no(undecided(what, err.Error(), want).from(c.PAE()))
	}
	if len(differing) > 0 {
		return no(failed(what, "its record's "+strings.Join(differing, ", ")+" is not what the claims that it lists say", "what they say, all of it", c.PAE()))
	}
	return nil
}

// recordDiffers names the parts of a completion's record that are not what the claims say.
func (in *inquiry) recordDiffers(done schemas.Completion) ([]string, error) {
	if done.Record == nil {
		return nil, nil
	}
	for _, run := range in.runs {
		if !slices.Contains(done.Finished, run.PAE()) {
			continue
		}
		for _, d := range run.Evidence() {
			if _, there := in.ev.Objects[d]; !there { // a part that cannot be read is not a part that differs
				return nil, fmt.Errorf("its record cannot be read anew: %s of %s is not in the evidence", d, run.name())
			}
		}
	}
	fresh, err := Record(in.policy, in.ev, in.q.Policy, done.Finished, done.Delivered)
	if err != nil {
		return nil, err
	}
	said := *done.Record
	said.Outputs = slices.Clone(said.Outputs)
	for i := range said.Outputs {
		said.Outputs[i].Metadata = map[string]godigest.Digest{}
	}
	var differing []string
	for _, part := range []struct {
		name      string
		got, want any
	}{
		{"source", said.Source, fresh.Source}, {"tools", said.Tools, fresh.Tools}, {"boxes", said.Boxes, fresh.Boxes}, {"locks", said.Locks, fresh.Locks}, {"corpora", said.Corpora, fresh.Corpora},
		{"outputs", said.Outputs, fresh.Outputs}, {"validation", said.Validation, fresh.Validation}, {"notTested", said.NotTested, fresh.NotTested},
	} {
		if !sameJSON(part.got, part.want) {
			differing = append(differing, part.name)
		}
	}
	return differing, nil
}

// sameJSON compares two values as RFC 8785 JSON.
func sameJSON(a, b any) bool {
	var bodies [2][]byte
	for i, v := range []any{a, b} {
		body, err := json.Marshal(v)
		if err == nil {
			body, err = jsoncanonicalizer.Transform(body)
		}
		if err != nil {
			return false
		}
		bodies[i] = body
	}
	return bytes.Equal(bodies[0], bodies[1])
}
