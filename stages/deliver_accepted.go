package stages

import (
	"fmt"
	"slices"
	"strings"

	vsa "github.com/in-toto/attestation/go/predicates/vsa/v1"
	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// notAccepted says why bytes may not be delivered.
type notAccepted struct {
	verdict schemas.Verdict
	why     string
}

func (e *notAccepted) Error() string { return e.why + "; only accepted bytes are delivered" }

// accepted finds the acceptance of exactly these bytes under exactly this
// policy: VSAs by those who may accept, as many as the policy wants. The newest
// word counts: a later refusal or a withdrawal takes an acceptance back. It
// returns the functionaries.
func accepted(run *Run, artifact godigest.Digest) ([]string, *notAccepted) {
	rule, ok := run.Extra.Policy.Decisions[policy.Accept]
	if !ok || rule.Threshold < 1 {
		return nil, &notAccepted{schemas.Undecided, "the policy has no decision accept with a threshold"}
	}
	withdrawn := withdrawnClaims(run.Claims)
	var last *notAccepted
	var by []string
	keys := map[godigest.Digest]bool{}
	for _, c := range run.Claims {
		if c.PredicateType() != attest.VSAType || !hasSubject(c, artifact) || !slices.Contains(rule.Functionaries, c.Functionary()) {
			continue
		}
		if last = judgeAcceptance(run, c, withdrawn); last != nil {
			by, keys = nil, map[godigest.Digest]bool{}
			continue
		}
		if !keys[c.Key()] && !slices.Contains(by, c.Functionary()) {
			keys[c.Key()] = true
			by = append(by, c.Functionary())
		}
	}
	switch {
	case last != nil:
		return nil, last
	case len(by) == 0:
		return nil, &notAccepted{schemas.Undecided, fmt.Sprintf("no acceptance of %s by %v", artifact, rule.Functionaries)}
	case len(by) < rule.Threshold:
		return nil, &notAccepted{schemas.Undecided, fmt.Sprintf("%s is accepted by %v, want %d functionaries", artifact, by, rule.Threshold)}
	}
	return by, nil
}

func judgeAcceptance(run *Run, c attest.Claim, withdrawn map[godigest.Digest]string) *notAccepted {
	no := func(format string, args ...any) *notAccepted {
		return &notAccepted{schemas.Failed, fmt.Sprintf("claim %s: ", c.PAE()) + fmt.Sprintf(format, args...)}
	}
	if reason, gone := withdrawn[c.PAE()]; gone {
		return no("the acceptance was withdrawn: %s", reason)
	}
	var s vsa.VerificationSummary
	if err := protojson.Unmarshal(c.Predicate(), &s); err != nil {
		return no("the summary cannot be read: %v", err)
	}
	switch decided := s.GetPolicy().GetDigest()["sha256"]; {
	case s.GetVerificationResult() != "PASSED":
		return no("the newest decision is %q, want PASSED", s.GetVerificationResult())
	case !slices.Contains(s.GetVerifiedLevels(), policy.LevelAccepted):
		return no("levels %v, want %s", s.GetVerifiedLevels(), policy.LevelAccepted)
	case decided == "" || decided != run.Extra.PolicyDigest.Encoded():
		return no("decided under policy sha256:%s, want %s", decided, run.Extra.PolicyDigest)
	case !strings.HasPrefix(s.GetPolicy().GetUri(), policy.DecisionURI(run.Extra.Policy.Name, policy.Accept, "")):
		return no("a decision %q, want one of %s", s.GetPolicy().GetUri(), policy.DecisionURI(run.Extra.Policy.Name, policy.Accept, "<class>"))
	}
	if pae, reason, gone := withdrawnBelow(&s, run.Claims, withdrawn, map[string]bool{}); gone {
		return no("it rests on claim %s, withdrawn: %s", pae, reason)
	}
	return nil
}

// withdrawnBelow looks for a withdrawn claim that a summary rests on, also by
// way of other summaries.
func withdrawnBelow(s *vsa.VerificationSummary, claims []attest.Claim, withdrawn map[godigest.Digest]string, seen map[string]bool) (godigest.Digest, string, bool) {
	for _, a := range s.GetInputAttestations() {
		bundle := a.GetDigest()["sha256"]
		if seen[bundle] {
			continue
		}
		seen[bundle] = true
		for _, c := range claims {
			if c.Bundle().Encoded() != bundle {
				continue
			}
			if reason, gone := withdrawn[c.PAE()]; gone {
				return c.PAE(), reason, true
			}
			var next vsa.VerificationSummary
			if c.PredicateType() != attest.VSAType || protojson.Unmarshal(c.Predicate(), &next) != nil {
				continue
			}
			if pae, reason, gone := withdrawnBelow(&next, claims, withdrawn, seen); gone {
				return pae, reason, true
			}
		}
	}
	return "", "", false
}

func hasSubject(c attest.Claim, d godigest.Digest) bool {
	return slices.ContainsFunc(c.Statement().GetSubject(), func(s *attest.ResourceDescriptor) bool {
		return s.GetDigest()["sha256"] == d.Encoded()
	})
}

// withdrawnClaims gives the reason by the withdrawn claim.
func withdrawnClaims(claims []attest.Claim) map[godigest.Digest]string {
	gone := map[godigest.Digest]string{}
	for _, c := range claims {
		var w schemas.Withdrawal
		if c.PredicateType() == attest.WithdrawalType && schemas.DecodeJSON(schemas.WithdrawalURI, c.Predicate(), &w) == nil {
			gone[w.Claim] = w.Reason
		}
	}
	return gone
}
