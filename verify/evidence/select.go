package evidence

import (
	"encoding/json"
	"slices"
	"strings"

	vsa "github.com/in-toto/attestation/go/predicates/vsa/v1"
	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// Select picks the claims that an artifact's package must hold, by bundle digest:
// everything it was made of, every examination of it and of what it was made
// of, every decision over it, what those decisions rest on, and withdrawals of any of these.
func Select(claims []attest.Claim, artifact godigest.Digest) map[godigest.Digest]bool {
	s := selection{claims: claims, artifacts: map[godigest.Digest]bool{}, runs: map[*policy.Run]bool{}, bundles: map[godigest.Digest]bool{}}
	s.all, _ = policy.Runs(claims)
	s.up(artifact)
	for _, run := range s.all {
		if s.makesNothingNew(run, artifact) && touches(run, artifact) {
			s.runs[run] = true
			if run.Uses != "complete" { // its other inputs are other artifacts, with packages of their own
				s.upInputs(run)
			}
		}
	}
	s.addParities()
	for _, run := range s.all {
		if s.makesNothingNew(run, artifact) && (s.inside(run) || run.Uses == "isolate" && s.ranTools()) && !decides[run.Uses] {
			s.runs[run] = true
		}
	}
	for run := range s.runs {
		for _, c := range run.Claims {
			s.bundles[c.Bundle()] = true
		}
	}
	s.addProbes()
	s.addDecisions(artifact)
	s.addWithdrawals()
	return s.bundles
}

// decides are the stage types that are about one artifact alone: what was
// decided over a file that this one was made of belongs to that file's package.
var decides = map[string]bool{"accept": true, "deliver": true, "reload": true, "complete": true}

type selection struct {
	claims    []attest.Claim
	all       []*policy.Run
	artifacts map[godigest.Digest]bool // the artifact and everything it was made of
	runs      map[*policy.Run]bool
	bundles   map[godigest.Digest]bool
}

// up adds the makers of d and of all that went into it.
func (s *selection) up(d godigest.Digest) {
	if s.artifacts[d] {
		return
	}
	s.artifacts[d] = true
	for _, run := range s.all {
		for _, subject := range run.Subjects {
			if subject.Digest == d && !touches(run, d) {
				s.runs[run] = true
				s.upInputs(run)
			}
		}
	}
}

// addParities adds the comparisons of tokenizers over what the artifact was made
// of, and how the vocabularies that they looked at were made.
func (s *selection) addParities() {
	for _, run := range s.all {
		if run.Uses == "parity" && slices.ContainsFunc(run.Inputs, func(i policy.NamedDigest) bool { return s.artifacts[i.Digest] }) {
			s.runs[run] = true
			s.upInputs(run)
		}
	}
}

// ranTools tells whether a tool may have made anything of what was picked: the
// probes of boxes belong to it, which are about the machine and no file.
func (s *selection) ranTools() bool {
	for run := range s.runs {
		if slices.ContainsFunc(run.Needs, func(d policy.Dependency) bool {
			return strings.HasPrefix(d.Name, "tool/") && d.Name != "tool/weighmaster"
		}) {
			return true
		}
	}
	return false
}

// addProbes adds what was stated about the findings of the picked probes (SCAI).
func (s *selection) addProbes() {
	for run := range s.runs {
		if run.Uses != "isolate" {
			continue
		}
		for _, c := range s.claims {
			if c.PredicateType() == attest.SCAIType && slices.ContainsFunc(run.Subjects, func(f policy.NamedDigest) bool { return subjectHas(c, f.Digest) }) {
				s.bundles[c.Bundle()] = true
			}
		}
	}
}

func (s *selection) upInputs(run *policy.Run) {
	for _, in := range run.Inputs {
		s.up(in.Digest)
	}
}

func touches(run *policy.Run, d godigest.Digest) bool {
	for _, in := range run.Inputs {
		if in.Digest == d {
			return true
		}
	}
	return false
}

func (s *selection) inside(run *policy.Run) bool {
	for _, in := range run.Inputs {
		if !s.artifacts[in.Digest] {
			return false
		}
	}
	return len(run.Inputs) > 0
}

// makesNothingNew tells examinations, decisions and deliveries from stages that make other files.
func (s *selection) makesNothingNew(run *policy.Run, artifact godigest.Digest) bool {
	for _, subject := range run.Subjects {
		if subject.Name != "result" && !strings.HasPrefix(subject.Name, "report/") && !isEvidence(subject.Name) && subject.Digest != artifact {
			return false
		}
	}
	return true
}

// evidenceRoles are what the names of evidence objects start with that are no reports.
var evidenceRoles = []string{"log/", "array/", "record/", "listing/", "box/", "compute/", "samples/", "receipt/"}

func isEvidence(name string) bool {
	return slices.ContainsFunc(evidenceRoles, func(role string) bool { return strings.HasPrefix(name, role) })
}

// addDecisions adds every other claim over the artifact, and what summaries
// rest on, by way of other summaries too.
func (s *selection) addDecisions(artifact godigest.Digest) {
	byBundle := map[godigest.Digest]attest.Claim{}
	for _, c := range s.claims {
		byBundle[c.Bundle()] = c
	}
	seen := map[godigest.Digest]bool{}
	var add func(c attest.Claim)
	add = func(c attest.Claim) {
		if seen[c.Bundle()] {
			return
		}
		seen[c.Bundle()], s.bundles[c.Bundle()] = true, true
		var summary vsa.VerificationSummary
		if c.PredicateType() != attest.VSAType || protojson.Unmarshal(c.Predicate(), &summary) != nil {
			return
		}
		for _, a := range summary.GetInputAttestations() {
			if other, here := byBundle[godigest.NewDigestFromEncoded(godigest.SHA256, a.GetDigest()["sha256"])]; here {
				add(other)
			}
		}
	}
	for _, c := range s.claims {
		if c.PredicateType() == attest.ProvenanceType || c.PredicateType() == attest.WithdrawalType || !subjectHas(c, artifact) {
			continue
		}
		add(c)
		if c.PredicateType() == attest.CompletionType {
			s.addFinished(c)
		}
	}
}

// addFinished adds every claim that a completion lists, of its other artifacts
// too: a reader holds the completion against all of them.
func (s *selection) addFinished(c attest.Claim) {
	var done schemas.Completion
	if json.Unmarshal(c.Predicate(), &done) != nil {
		return
	}
	for _, other := range s.claims {
		if slices.Contains(done.Finished, other.PAE()) {
			s.bundles[other.Bundle()] = true
		}
	}
}

func (s *selection) addWithdrawals() {
	chosen := map[godigest.Digest]bool{}
	for _, c := range s.claims {
		if s.bundles[c.Bundle()] {
			chosen[c.PAE()] = true
		}
	}
	for _, c := range s.claims {
		if w, err := policy.Withdrawal(c); err == nil && chosen[w.Claim] {
			s.bundles[c.Bundle()] = true
		}
	}
}

func subjectHas(c attest.Claim, d godigest.Digest) bool {
	for _, subject := range c.Statement().GetSubject() {
		if subject.GetDigest()["sha256"] == d.Encoded() {
			return true
		}
	}
	return false
}
