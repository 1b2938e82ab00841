package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/keys"
)

// exportLines writes the bundles of a file's lineage as JSON Lines. Into a
// folder it writes <digest>.jsonl, the name that gh attestation download gives.
func (p *project) exportLines(ctx context.Context, artifact, to string) ([]string, error) {
	d, lineage, err := p.lineageOf(ctx, artifact)
	if err != nil {
		return nil, err
	}
	bundles, err := p.bundles(ctx, lineage)
	if err != nil {
		return nil, err
	}
	var doc bytes.Buffer
	for _, b := range bundles {
		if err := json.Compact(&doc, b); err != nil {
			return nil, err
		}
		doc.WriteByte('\n')
	}
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		to = filepath.Join(to, d.String()+".jsonl")
	}
	return writeNew(to, doc.Bytes())
}

// exportSummary writes the DSSE envelope of the newest verification summary
// over a file, which is what readers take that know no Sigstore bundles. They
// cannot see that it no longer counts, so that one which does not is refused.
func (p *project) exportSummary(ctx context.Context, artifact, to string) ([]string, error) {
	d, lineage, err := p.lineageOf(ctx, artifact)
	if err != nil {
		return nil, err
	}
	var newest []attest.Claim
	for _, c := range lineage {
		if c.PredicateType() == attest.VSAType && about(c, d) {
			newest = []attest.Claim{c}
		}
	}
	if newest == nil {
		return nil, usage("%s: nobody decided over it; weighmaster accept makes a verification summary", artifact)
	}
	now, err := p.standing(ctx, lineage, p.places)
	if err != nil {
		return nil, err
	}
	if why := now.against(newest[0].PAE()); why != "" {
		return nil, &exitError{exitFalse, fmt.Errorf("%s: the newest verification summary no longer counts: %s; decide anew", artifact, why)}
	}
	bundles, err := p.bundles(ctx, newest)
	if err != nil {
		return nil, err
	}
	var bundle struct {
		Envelope json.RawMessage `json:"dsseEnvelope"`
	}
	if err := json.Unmarshal(bundles[0], &bundle); err != nil {
		return nil, fmt.Errorf("bundle %s: %w", newest[0].Bundle(), err)
	}
	return writeNew(to, append(bundle.Envelope, '\n'))
}

func about(c attest.Claim, d godigest.Digest) bool {
	for _, s := range c.Statement().GetSubject() {
		if s.GetDigest()["sha256"] == d.Encoded() {
			return true
		}
	}
	return false
}

// bundles reads the bundles of claims from the log, in log order.
func (p *project) bundles(ctx context.Context, claims []attest.Claim) ([][]byte, error) {
	wanted := map[godigest.Digest]bool{}
	for _, c := range claims {
		wanted[c.Bundle()] = true
	}
	var list [][]byte
	for entry, err := range p.log.Entries(ctx) {
		if err != nil {
			return nil, err
		}
		if wanted[entry.Leaf.Bundle] {
			list = append(list, entry.Bundle)
		}
	}
	return list, nil
}

func writeNew(to string, body []byte) ([]string, error) {
	if exists(to) {
		return nil, usage("%s: it exists; name a new file", to)
	}
	if err := keys.WriteNewPublic(to, body); err != nil {
		return nil, usage("%v", err)
	}
	return []string{to}, nil
}
