package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/ledger/objects"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/verify/evidence"
)

const packageSuffix = ".evidence.zip"

// candidateMark is in the name of a file that turned out to have other bytes.
const candidateMark = ".candidate-"

// packDelivered writes the evidence package of every delivered file, anew:
// later entries (a reload, a completion) belong into it too.
func (p *project) packDelivered(ctx context.Context) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(p.dir, deliveredDir))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !e.Type().IsRegular() || strings.HasSuffix(e.Name(), packageSuffix) || strings.HasSuffix(e.Name(), ownSuffix) || strings.HasSuffix(e.Name(), ".partial") || strings.Contains(e.Name(), candidateMark) {
			continue
		}
		path := filepath.Join(p.dir, deliveredDir, e.Name())
		if err := p.pack(ctx, path, path+packageSuffix); err != nil {
			return names, err
		}
		names = append(names, path+packageSuffix)
	}
	return names, nil
}

// describe is a file as a package names it. Of a digest nobody knows the name
// and the size: such a package is there to be imported.
func describe(ctx context.Context, artifact string) (evidence.File, error) {
	if d := godigest.Digest(artifact); d.Validate() == nil {
		return evidence.File{Name: d.Encoded(), Digest: d}, nil
	}
	sums, err := digest.File(ctx, artifact)
	return evidence.File{Name: filepath.Base(artifact), Size: sums.Size, Digest: sums.SHA256}, err
}

// pack writes the evidence package of a file, or of a digest, to a path.
func (p *project) pack(ctx context.Context, file, to string) error {
	described, err := describe(ctx, file)
	if err != nil {
		return err
	}
	pkg, err := p.collect(ctx, described)
	if err != nil {
		return fmt.Errorf("evidence of %s: %w", file, err)
	}
	return writePackage(pkg, to)
}

// writePackage writes a package whole or not at all.
func writePackage(pkg *evidence.Package, to string) error {
	partial := to + ".partial"
	mode := os.FileMode(0o644)
	if len(pkg.Index.Private) > 0 {
		mode = 0o600
	}
	if err := os.Remove(partial); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode) // nothing is written through a link
	if err != nil {
		return err
	}
	if err := errors.Join(pkg.Write(f), f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(partial))
	}
	return os.Rename(partial, to)
}

// collect gathers an artifact's evidence from the ledger and the store.
func (p *project) collect(ctx context.Context, file evidence.File) (*evidence.Package, error) {
	claims, err := p.allClaims(ctx)
	if err != nil {
		return nil, err
	}
	return p.collectChosen(ctx, file, evidence.Select(claims, file.Digest))
}

// collectChosen gathers the chosen bundles, of claims that were verified.
func (p *project) collectChosen(ctx context.Context, file evidence.File, chosen map[godigest.Digest]bool) (*evidence.Package, error) {
	_, policyBody, err := p.readPolicy()
	if err != nil {
		return nil, err
	}
	checkpoint, err := p.log.Checkpoint(ctx)
	if err != nil {
		return nil, err
	}
	pkg := &evidence.Package{
		Index:      evidence.Index{Schema: evidence.IndexURI, File: file, Origin: p.trust.Log.Origin, Entries: []evidence.Entry{}, Objects: []evidence.Object{}, Withheld: []evidence.Object{}},
		Checkpoint: checkpoint, Objects: map[godigest.Digest][]byte{}, Policy: policyBody,
	}
	var used []attest.Claim
	for entry, err := range p.log.Entries(ctx) {
		if err != nil {
			return nil, err
		}
		if !chosen[entry.Leaf.Bundle] {
			continue
		}
		proof, err := p.log.Prove(ctx, entry.Index, checkpoint)
		if err != nil {
			return nil, err
		}
		described := evidence.Entry{Index: entry.Index, Leaf: entry.Leaf}
		origin, kept, err := p.origin(entry.Leaf)
		if err != nil {
			return nil, err
		}
		if origin != p.trust.Log.Origin {
			described.Imported = &evidence.Imported{Origin: origin, Leaf: kept.Leaf}
		}
		pkg.Vouched = append(pkg.Vouched, kept.Proof)
		pkg.Index.Entries = append(pkg.Index.Entries, described)
		pkg.Bundles = append(pkg.Bundles, entry.Bundle)
		pkg.Proofs = append(pkg.Proofs, proof)
		used = append(used, p.claims[entry.Leaf.Bundle])
	}
	if len(used) == 0 {
		return nil, fmt.Errorf("the ledger says nothing about %s", file.Digest)
	}
	return pkg, p.addObjects(ctx, pkg, used)
}

// addObjects adds the public results and reports that the claims name; of
// private ones, and of logs and arrays, the digest travels in the claims.
func (p *project) addObjects(ctx context.Context, pkg *evidence.Package, claims []attest.Claim) error {
	runs, _ := policy.Runs(claims)
	seen := map[godigest.Digest]bool{}
	for _, run := range runs {
		for _, d := range run.Evidence() {
			if seen[d] {
				continue
			}
			seen[d] = true
			body, object, err := p.objects.Get(ctx, d)
			if errors.Is(err, objects.ErrNotFound) {
				continue // verification will call it missing, by name
			}
			if err != nil {
				return err
			}
			described := evidence.Object{Digest: d, Size: object.Size, MediaType: object.MediaType}
			if !object.Public {
				pkg.Index.Withheld = append(pkg.Index.Withheld, described)
				continue
			}
			pkg.Index.Objects = append(pkg.Index.Objects, described)
			pkg.Objects[d] = body
		}
	}
	return nil
}
