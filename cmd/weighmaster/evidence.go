package main

import (
	"context"
	"errors"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/objects"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// evidenceCheck is what was found of the evidence objects.
type evidenceCheck struct {
	findings []ledger.Finding
	named    int // by claims of this log
	absent   int // named by imported claims and not here: private evidence stays where it was made
}

// checkEvidence rehashes every evidence object that is there, whoever names it,
// and wants those that the log's own claims name to be there.
func (p *project) checkEvidence(ctx context.Context, claims []attest.Claim) (evidenceCheck, error) {
	var c evidenceCheck
	elsewhere := p.importedStatements()
	var wanted []godigest.Digest
	runs, _ := policy.Runs(claims)
	for _, run := range runs {
		if !elsewhere[run.Claims[0].PAE()] {
			wanted = append(wanted, run.Evidence()...)
			continue
		}
		for _, d := range run.Evidence() {
			if _, err := p.objects.Stat(ctx, d); errors.Is(err, objects.ErrNotFound) {
				c.absent++
			}
		}
	}
	c.named = len(wanted)
	corrupt, err := p.objects.Check(ctx, wanted...)
	if err != nil {
		return c, err
	}
	for _, bad := range corrupt {
		c.findings = append(c.findings, ledger.Finding{Check: "evidence " + bad.Check, Where: bad.Path, Got: bad.Got, Want: bad.Want})
	}
	return c, nil
}

// importedStatements are the claims, by what was signed, that came from other logs.
func (p *project) importedStatements() map[godigest.Digest]bool {
	set := map[godigest.Digest]bool{}
	for bundle, claim := range p.claims {
		if p.places[bundle].Imported {
			set[claim.PAE()] = true
		}
	}
	return set
}

// outcome is how a run ended, as its own evidence says; unreadable evidence is undecided.
func (p *project) outcome(ctx context.Context, run *policy.Run) (schemas.Verdict, string) {
	bodies := map[godigest.Digest][]byte{}
	for _, d := range run.Evidence() {
		if body, _, err := p.objects.Get(ctx, d); err == nil {
			bodies[d] = body
		}
	}
	res, err := run.Result(bodies)
	if err != nil {
		return schemas.Undecided, err.Error()
	}
	return res.Verdict, res.Failure
}
