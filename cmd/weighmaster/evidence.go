package main

import (
	"context"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// checkEvidence rehashes every evidence object and wants those that the claims name to be there.
func (p *project) checkEvidence(ctx context.Context, claims []attest.Claim) ([]ledger.Finding, int, error) {
	var wanted []godigest.Digest
	runs, _ := policy.Runs(claims)
	for _, run := range runs {
		wanted = append(wanted, run.Evidence()...)
	}
	corrupt, err := p.objects.Check(ctx, wanted...)
	if err != nil {
		return nil, 0, err
	}
	findings := []ledger.Finding{}
	for _, c := range corrupt {
		findings = append(findings, ledger.Finding{Check: "evidence " + c.Check, Where: c.Path, Got: c.Got, Want: c.Want})
	}
	return findings, len(wanted), nil
}

// outcome is how a run ended, as its own evidence says; unreadable evidence is undecided.
func (p *project) outcome(ctx context.Context, run *policy.Run) (schemas.Verdict, string) {
	objects := map[godigest.Digest][]byte{}
	for _, d := range run.Evidence() {
		if body, _, err := p.objects.Get(ctx, d); err == nil {
			objects[d] = body
		}
	}
	res, err := run.Result(objects)
	if err != nil {
		return schemas.Undecided, err.Error()
	}
	return res.Verdict, res.Failure
}
