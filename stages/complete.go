package stages

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// Complete states that the whole run is finished: every input it is given was
// accepted, delivered and reloaded. No rented compute is known to the built-in
// stages, and the completion says so.
type Complete struct{}

// Uses implements [Stage].
func (Complete) Uses() string { return "complete" }

// Unrepeatable: completion is about the state of now.
func (Complete) Unrepeatable() {}

// Run implements [Stage]. Inputs: any roles, each the output of a deliver stage.
func (Complete) Run(ctx context.Context, run *Run) (*Outcome, error) {
	if len(run.Inputs) == 0 {
		return nil, fmt.Errorf("stage %s: it has no inputs; name the delivered artifacts, or nothing is finished", run.Stage)
	}
	out := &Outcome{Verdict: schemas.Passed, Facts: map[string]string{"delivered": fmt.Sprint(len(run.Inputs))}}
	done := schemas.Completion{Pipeline: run.Extra.PipelineDigest, Policy: run.Extra.PolicyDigest, Compute: "none rented"}
	var subject []*attest.ResourceDescriptor
	claims := map[godigest.Digest]bool{}
	for _, role := range sortedKeys(run.Inputs) {
		a, err := run.Single(role)
		if err != nil {
			return nil, err
		}
		class, err := policy.ClassOf(run.Extra.Policy, run.Claims, a.Digest)
		if err != nil {
			return nil, fmt.Errorf("stage %s: input %s: %w", run.Stage, role, err)
		}
		decision, err := finished(ctx, run, class, a.Digest)
		if err != nil {
			return nil, err
		}
		for _, c := range decision.Claims {
			claims[c] = true
		}
		if list := decision.Failures(); len(list) > 0 {
			out.Verdict, out.Failure = decision.Verdict, a.Name+": "+list[0].String()
			return out, nil
		}
		subject = append(subject, &attest.ResourceDescriptor{Name: a.Name, Digest: fileDigests(a.Files[0])})
		done.Delivered = append(done.Delivered, schemas.DeliveredFile{Name: a.Name, Digest: a.Digest, Size: a.Files[0].Sums.Size})
	}
	for _, c := range run.Claims {
		if claims[c.Bundle()] {
			done.Finished = append(done.Finished, c.PAE())
		}
	}
	sort.Slice(subject, func(i, j int) bool { return subject[i].Name < subject[j].Name })
	checkpoint, err := run.Extra.Checkpoint(ctx)
	if err != nil {
		return nil, err
	}
	done.Checkpoint = checkpoint
	s, err := completion(subject, done)
	if err != nil {
		return nil, err
	}
	out.Statements = []*attest.Statement{s}
	return out, nil
}

func completion(subject []*attest.ResourceDescriptor, done schemas.Completion) (*attest.Statement, error) {
	body, err := toStruct(done)
	if err != nil {
		return nil, err
	}
	return attest.NewStatement(subject, attest.CompletionType, body)
}

// finished asks whether an artifact was accepted, delivered and reloaded, with
// the isolation that redistribution demands.
func finished(ctx context.Context, run *Run, class string, artifact godigest.Digest) (policy.Decision, error) {
	p := run.Extra.Policy
	rule := p.Decisions[policy.Redistribute]
	rule.Requires = []string{"accepted", "delivered", "reloaded"}
	if rule.Threshold == 0 {
		rule.SignerRule = p.Decisions[policy.Accept].SignerRule
	}
	decisions := map[string]schemas.DecisionRule{policy.Redistribute: rule, policy.Accept: p.Decisions[policy.Accept]}
	asked := p
	asked.Decisions = decisions
	asked.Scans, asked.Notices, asked.Reviewers, asked.Fresh, asked.Standing, asked.Witnesses = nil, nil, nil, nil, nil, nil // read by no rule that is left
	ev, err := PolicyEvidence(ctx, run.Claims, run.Objects)
	if err != nil {
		return policy.Decision{}, err
	}
	return policy.Decide(asked, ev, policy.Question{Decision: policy.Redistribute, Class: class, Artifact: artifact, Policy: run.Extra.PolicyDigest, At: run.Now()})
}

// decodeWith reads a stage's parameters, which are already valid against their schema.
func decodeWith(run *Run, v any) error {
	if err := json.Unmarshal(run.With, v); err != nil {
		return fmt.Errorf("stage %s: parameters: %w", run.Stage, err)
	}
	return nil
}
