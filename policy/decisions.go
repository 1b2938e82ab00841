package policy

import (
	"fmt"
	"slices"
	"strings"

	vsa "github.com/in-toto/attestation/go/predicates/vsa/v1"
	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/schemas"
)

// LevelAccepted is the verifiedLevels entry of a VSA that accepts an artifact.
const LevelAccepted = "WEIGHMASTER_ACCEPTED"

// DecisionURI is the policy URI of a VSA: which decision of which policy, for which class.
func DecisionURI(policy, decision, class string) string {
	return schemas.BaseURI + "policy/" + policy + "#" + decision + "/" + class
}

// ruleAccepted wants the newest acceptance decision over the artifact to be
// PASSED, taken under this very policy by those who may, and resting on claims
// that are all here and not withdrawn.
func ruleAccepted(in *inquiry) []Reason {
	const what = "acceptance"
	rule := in.policy.Decisions[Accept]
	uri := DecisionURI(in.policy.Name, Accept, in.q.Class)
	want := fmt.Sprintf("a PASSED summary %s under policy %s", uri, in.q.Policy)
	var claims []attest.Claim
	var reasons []Reason
	last := Reason{}
	for _, c := range in.claims {
		if c.PredicateType() != attest.VSAType || !subjectHas(c, in.q.Artifact) || !slices.Contains(rule.Functionaries, c.Functionary()) {
			continue
		}
		last = in.judgeSummary(what, uri, want, c)
		if last.Verdict == schemas.Passed {
			claims = append(claims, c)
		} else {
			claims = nil // a later refusal takes earlier acceptances back
		}
	}
	if last.What == "" {
		return []Reason{undecided(what, "no summary by "+strings.Join(rule.Functionaries, ", "), want)}
	}
	if last.Verdict != schemas.Passed {
		return append(reasons, last)
	}
	in.usedVSA = append(in.usedVSA, claims...)
	count := countSigners(what, rule.SignerRule, claims)
	return append(reasons, last, count)
}

func (in *inquiry) judgeSummary(what, uri, want string, c attest.Claim) Reason {
	var s vsa.VerificationSummary
	if err := protojson.Unmarshal(c.Predicate(), &s); err != nil {
		return Reason{What: what, Verdict: schemas.Undecided, Got: err.Error(), Want: want, Claim: c.PAE()}
	}
	policy := godigest.NewDigestFromEncoded(godigest.SHA256, s.GetPolicy().GetDigest()["sha256"])
	switch {
	case s.GetVerificationResult() != "PASSED":
		return failed(what, "the newest decision is "+s.GetVerificationResult(), want, c.PAE())
	case !slices.Contains(s.GetVerifiedLevels(), LevelAccepted):
		return failed(what, fmt.Sprintf("levels %v", s.GetVerifiedLevels()), LevelAccepted, c.PAE())
	case policy != in.q.Policy:
		return failed(what, "decided under policy "+policy.String(), want, c.PAE())
	case s.GetPolicy().GetUri() != uri:
		return failed(what, "a decision "+s.GetPolicy().GetUri(), want, c.PAE())
	case len(s.GetInputAttestations()) == 0:
		return failed(what, "a decision that rests on nothing", want, c.PAE())
	}
	if f, fell := in.fallen[c.PAE()]; fell {
		return failed(what, f.String(), want, c.PAE())
	}
	here := map[godigest.Digest]bool{}
	for _, claim := range in.ev.Claims {
		here[claim.Bundle()] = true
	}
	for _, a := range s.GetInputAttestations() {
		if d := godigest.NewDigestFromEncoded(godigest.SHA256, a.GetDigest()["sha256"]); !here[d] {
			return Reason{What: what, Verdict: schemas.Undecided, Got: "it rests on attestation " + d.String() + ", which is not in the evidence", Want: want, Claim: c.PAE()}
		}
	}
	return passed(what, "PASSED by "+c.Functionary(), want, c.PAE())
}

// summaryURI is the policy URI of a summary, empty of what is none.
func summaryURI(c attest.Claim) string {
	var s vsa.VerificationSummary
	if protojson.Unmarshal(c.Predicate(), &s) != nil {
		return ""
	}
	return s.GetPolicy().GetUri()
}

func subjectHas(c attest.Claim, d godigest.Digest) bool {
	return slices.ContainsFunc(c.Statement().GetSubject(), func(s *attest.ResourceDescriptor) bool { return sha256Of(s) == d })
}

// ruleDelivered wants a passed, properly signed delivery of exactly these bytes.
func ruleDelivered(in *inquiry) []Reason {
	return in.ranOn("deliver", func(run *Run, _ schemas.Result) []Reason {
		if !run.makes(in.q.Artifact) {
			return []Reason{failed("delivery", "other bytes at the destination", in.q.Artifact.String(), run.PAE())}
		}
		return nil
	})
}

// ruleReloaded wants a passed reload of exactly these bytes, in a box that
// denied what the decision names.
func ruleReloaded(in *inquiry) []Reason {
	return in.ranOn("reload", func(run *Run, res schemas.Result) []Reason {
		var reasons []Reason
		for _, name := range in.decision.Isolation {
			what := "isolation during reload: " + name
			switch got := res.Facts[name]; got {
			case "denied":
				reasons = append(reasons, passed(what, "denied ("+res.Facts["enforcement"]+")", "denied", run.PAE()))
			default:
				reasons = append(reasons, Reason{What: what, Verdict: schemas.Undecided, Got: fmt.Sprintf("%q", got), Want: "denied", Claim: run.PAE()})
			}
		}
		return reasons
	})
}

// ranOn wants at least one sound run of a stage type over the artifact, and holds the newest of them to more.
func (in *inquiry) ranOn(uses string, more func(*Run, schemas.Result) []Reason) []Reason {
	newest := in.newest(uses)
	if newest == nil {
		return []Reason{undecided(uses, "no claim", "a claim of stage type "+uses+" over "+in.q.Artifact.String())}
	}
	sig := in.signed(uses, newest.Claims)
	res, err := newest.Result(in.ev.Objects)
	switch {
	case err != nil:
		return []Reason{sig, {What: uses, Verdict: schemas.Undecided, Got: err.Error(), Want: "its result", Claim: newest.PAE()}}
	case res.Verdict != schemas.Passed || res.ExitStatus != 0:
		verdict := res.Verdict
		if verdict == schemas.Passed {
			verdict = schemas.Failed
		}
		return []Reason{sig, {What: uses, Verdict: verdict, Got: res.Failure, Want: "passed", Claim: newest.PAE()}}
	}
	return append([]Reason{sig, passed(uses, "passed", "passed", newest.PAE())}, more(newest, res)...)
}
