package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages"
)

// inquiry is a question with all that is needed to answer it.
type inquiry struct {
	doc      schemas.Policy
	evidence policy.Evidence
	question policy.Question
}

// inquire gathers what the project's policy looks at when it is asked about an artifact.
func (a *app) inquire(ctx context.Context, artifact, decision, class string) (inquiry, error) {
	var q inquiry
	p, err := a.open(ctx, false)
	if err != nil {
		return q, err
	}
	defer p.close()
	doc, body, err := p.readPolicy()
	if err != nil {
		return q, err
	}
	if err := p.checkPeople(doc, body); err != nil {
		return q, err
	}
	d, err := digestArgument(ctx, artifact)
	if err != nil {
		return q, err
	}
	claims, err := p.allClaims(ctx)
	if err != nil {
		return q, err
	}
	if class == "" {
		if class, err = policy.ClassOf(doc, claims, d); err != nil {
			return q, usage("%v", err)
		}
	}
	q.doc, q.question = doc, policy.Question{Decision: decision, Class: class, Artifact: d, Policy: godigest.FromBytes(body), At: time.Now()}
	q.evidence, err = p.policyEvidence(ctx, claims)
	return q, err
}

func (q inquiry) answer() (policy.Decision, error) {
	d, err := policy.Decide(q.doc, q.evidence, q.question)
	if err != nil {
		return d, usage("%v", err)
	}
	return d, nil
}

// policyEvidence is the whole log: claims with their places, what they name, and who witnessed the checkpoint.
func (p *project) policyEvidence(ctx context.Context, claims []attest.Claim) (policy.Evidence, error) {
	ev, err := stages.PolicyEvidence(ctx, claims, evidenceStore{p.objects})
	if err != nil {
		return ev, err
	}
	ev.Places = map[godigest.Digest]policy.Place{}
	for entry, err := range p.log.Entries(ctx) {
		if err != nil {
			return ev, err
		}
		ev.Size++
		if _, seen := ev.Places[entry.Leaf.Bundle]; seen {
			continue
		}
		if ev.Places[entry.Leaf.Bundle], err = p.place(entry); err != nil {
			return ev, err
		}
	}
	checkpoint, err := p.log.Checkpoint(ctx)
	if err != nil {
		return ev, err
	}
	witnesses, err := witnessKeys(p.trust)
	if err != nil {
		return ev, usage("%s: witnesses: %v", trustFile, err)
	}
	seen, err := ledger.Cosignatures(checkpoint, p.logKey, witnesses)
	if err != nil {
		return ev, err
	}
	for _, c := range seen {
		ev.Witnesses = append(ev.Witnesses, policy.Cosignature{Name: c.Name, Time: c.Time})
	}
	return ev, nil
}

// readPolicy reads policy.yaml and refuses one that could not say no.
func (p *project) readPolicy() (schemas.Policy, []byte, error) {
	path := filepath.Join(p.dir, policyFile)
	body, err := os.ReadFile(path)
	if err != nil {
		return schemas.Policy{}, nil, usage("%v", err)
	}
	if err := unedited(path, body); err != nil {
		return schemas.Policy{}, nil, err
	}
	doc, err := policy.Read(path, body)
	if err != nil {
		return doc, nil, usage("%v", err)
	}
	return doc, body, nil
}

// checkPeople wants everybody whom the policy names to be in the trust file: a
// name that nobody can sign under is a mistake.
func (p *project) checkPeople(doc schemas.Policy, body []byte) error {
	people, witnesses := []string{}, []string{}
	for _, f := range p.trust.Functionaries {
		people = append(people, f.Name)
	}
	for _, w := range p.trust.Witnesses {
		witnesses = append(witnesses, w.Origin)
	}
	if err := policy.CheckPeople(doc, people, witnesses); err != nil {
		return usage("%v", policy.AtLine(filepath.Join(p.dir, policyFile), body, err))
	}
	return nil
}
