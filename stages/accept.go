package stages

import (
	"context"
	"errors"
	"fmt"

	testresult "github.com/in-toto/attestation/go/predicates/test_result/v0"
	vsa "github.com/in-toto/attestation/go/predicates/vsa/v1"
	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// Accept decides whether a candidate is accepted: the policy over every
// verified claim. It states the gates (test-result) and the decision (VSA),
// passed or not; a refusal is evidence too.
type Accept struct{}

// Uses implements [Stage].
func (Accept) Uses() string { return "accept" }

// Unrepeatable: a decision is taken over the evidence of now.
func (Accept) Unrepeatable() {}

type acceptWith struct {
	Class string `json:"class"`
}

// Run implements [Stage]. Input role: artifact, a single file.
func (Accept) Run(ctx context.Context, run *Run) (*Outcome, error) {
	var with acceptWith
	if err := decodeWith(run, &with); err != nil {
		return nil, err
	}
	artifact, err := run.Single("artifact")
	if err != nil {
		return nil, err
	}
	decision, err := Decide(ctx, run, policy.Accept, with.Class, artifact.Digest)
	if err != nil {
		return nil, err
	}
	out := &Outcome{
		Verdict:      decision.Verdict,
		Dependencies: []Dependency{{Name: "policy/" + run.Extra.Policy.Name, Digest: run.Extra.PolicyDigest}},
		Facts:        map[string]string{"class": with.Class, "decision": string(decision.Verdict)},
		Internal:     map[string]any{"rules": run.Extra.Policy.Decisions[policy.Accept].Requires},
	}
	if list := decision.Failures(); len(list) > 0 {
		out.Failure = list[0].String()
		if len(list) > 1 {
			out.Failure += fmt.Sprintf("; and %d more (weighmaster policy explain)", len(list)-1)
		}
	}
	subject := []*attest.ResourceDescriptor{{Name: artifact.Name, Digest: fileDigests(artifact.Files[0])}}
	tests, err := testResult(subject, run, decision)
	if err != nil {
		return nil, err
	}
	summary, err := Summary(subject, run, decision)
	if err != nil {
		return nil, err
	}
	out.Statements = []*attest.Statement{tests, summary}
	return out, nil
}

// Single returns the input of a role that must be one file.
func (r *Run) Single(role string) (Artifact, error) {
	a, ok := r.Inputs[role]
	switch {
	case !ok:
		return a, fmt.Errorf("stage %s: it has no input %q; name the stage that makes it under inputs", r.Stage, role)
	case a.Multi:
		return a, fmt.Errorf("stage %s: input %s is the folder %s, want a single file", r.Stage, role, a.Name)
	}
	return a, nil
}

// Decide asks the policy, with every report and result that the claims name,
// and all else that [Extra.Evidence] gathers.
func Decide(ctx context.Context, run *Run, decision, class string, artifact godigest.Digest) (policy.Decision, error) {
	ev, err := gather(ctx, run)
	if err != nil {
		return policy.Decision{}, err
	}
	return policy.Decide(run.Extra.Policy, ev, policy.Question{Decision: decision, Class: class, Artifact: artifact, Policy: run.Extra.PolicyDigest, At: run.Now()})
}

// gather brings together all that a policy looks at.
func gather(ctx context.Context, run *Run) (policy.Evidence, error) {
	if run.Extra == nil {
		return policy.Evidence{}, errors.New("no policy was handed in")
	}
	if run.Extra.Evidence == nil {
		return PolicyEvidence(ctx, run.Claims, run.Objects)
	}
	return run.Extra.Evidence(ctx, run.Claims)
}

func testResult(subject []*attest.ResourceDescriptor, run *Run, d policy.Decision) (*attest.Statement, error) {
	p := &testresult.TestResult{Result: result(d), Configuration: []*attest.ResourceDescriptor{policyDescriptor(run, d)}}
	for _, r := range d.Reasons {
		name := r.Rule + ": " + r.What
		if r.Verdict == schemas.Passed {
			p.PassedTests = append(p.PassedTests, name)
		} else {
			p.FailedTests = append(p.FailedTests, r.String())
		}
	}
	return attest.NewStatement(subject, attest.TestResultType, p)
}

// Summary states a decision as a SLSA Verification Summary.
func Summary(subject []*attest.ResourceDescriptor, run *Run, d policy.Decision) (*attest.Statement, error) {
	desc := policyDescriptor(run, d)
	p := &vsa.VerificationSummary{
		Verifier:           &vsa.VerificationSummary_Verifier{Id: schemas.BaseURI + "verifier"},
		TimeVerified:       timestamppb.New(run.Now()),
		ResourceUri:        schemas.BaseURI + "artifact/" + d.Artifact.String(),
		Policy:             &vsa.VerificationSummary_Policy{Uri: desc.Uri, Digest: desc.Digest},
		VerificationResult: result(d),
		SlsaVersion:        "1.1",
	}
	if d.Verdict == schemas.Passed {
		p.VerifiedLevels = []string{policy.LevelAccepted}
	} else {
		p.VerifiedLevels = []string{"FAILED"} // as SLSA has it where no level was reached
	}
	for _, bundle := range d.Claims {
		p.InputAttestations = append(p.InputAttestations, &vsa.VerificationSummary_InputAttestation{Uri: "urn:" + bundle.String(), Digest: sha256Set(bundle)})
	}
	return attest.NewStatement(subject, attest.VSAType, p)
}

func policyDescriptor(run *Run, d policy.Decision) *attest.ResourceDescriptor {
	return &attest.ResourceDescriptor{Name: "policy", Uri: policy.DecisionURI(run.Extra.Policy.Name, d.Decision, d.Class), Digest: sha256Set(run.Extra.PolicyDigest)}
}

func result(d policy.Decision) string {
	if d.Verdict == schemas.Passed {
		return "PASSED"
	}
	return "FAILED"
}
