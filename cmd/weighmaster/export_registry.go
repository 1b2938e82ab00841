package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/stages"
	oci "github.com/weighmaster/weighmaster/stages/registry"
	"github.com/weighmaster/weighmaster/verify/evidence"
)

// attachment is the public evidence of a file, as it is attached in a registry.
func (p *project) attachment(ctx context.Context, file evidence.File) (oci.Evidence, error) {
	ev := oci.Evidence{Name: file.Name + packageSuffix}
	pkg, err := p.collect(ctx, file)
	if err != nil {
		return ev, err
	}
	if err := pkg.Publishable(); err != nil {
		return ev, err
	}
	var body bytes.Buffer
	if err := pkg.Write(&body); err != nil {
		return ev, err
	}
	ev.Package = body.Bytes()
	for i, e := range pkg.Index.Entries {
		at, err := time.Parse(time.RFC3339, e.Leaf.Appended)
		if err != nil {
			return ev, fmt.Errorf("ledger entry %d: %w", e.Index, err)
		}
		if at.After(ev.At) {
			ev.At = at
		}
		ev.Bundles = append(ev.Bundles, oci.Bundle{Body: pkg.Bundles[i], PredicateType: e.Leaf.PredicateType, At: at})
	}
	return ev, nil
}

// attachmentOf is [project.attachment] for the deliver stage.
func (p *project) attachmentOf(ctx context.Context, a stages.Artifact) (oci.Evidence, error) {
	return p.attachment(ctx, evidence.File{Name: a.Files[0].Name, Size: a.Files[0].Sums.Size, Digest: a.Digest})
}

// exportRegistry attaches the evidence of now to a file that a registry has already.
func (p *project) exportRegistry(ctx context.Context, artifact, address string, plain bool) ([]string, error) {
	file, err := describe(ctx, artifact)
	if err != nil {
		return nil, err
	}
	repo, err := oci.Open(address, oci.Options{PlainHTTP: plain})
	if err != nil {
		return nil, usage("--oci: %v", err)
	}
	ev, err := p.attachment(ctx, file)
	if err != nil {
		return nil, err
	}
	d, err := repo.Attach(ctx, file.Digest, ev)
	if err != nil {
		return nil, fromRegistry(err)
	}
	return []string{address + ": evidence " + d.String()}, nil
}

// fromRegistry gives an error the exit code of a check that failed, where one did.
func fromRegistry(err error) error {
	var other *oci.OtherBytesError
	var moved *oci.MovedError
	var foreign *oci.ForeignReferrerError
	if errors.As(err, &other) || errors.As(err, &moved) || errors.As(err, &foreign) {
		return &exitError{exitFalse, err}
	}
	return err
}

// maxAttached bounds how many evidence packages of one file are looked at.
const maxAttached = 64

// packagesAt reads every evidence package that a registry keeps for a file,
// newest first: an older one of the same log has nothing new then.
func packagesAt(ctx context.Context, address string, plain bool) ([]*evidence.Package, error) {
	repo, err := oci.Open(address, oci.Options{PlainHTTP: plain})
	if err != nil {
		return nil, usage("%v", err)
	}
	found, err := repo.Evidence(ctx, oci.PackageType)
	if err != nil {
		return nil, fromRegistry(err)
	}
	if len(found) == 0 {
		return nil, usage("%s: no evidence package is attached there; attach one with weighmaster export FILE --oci %s", address, address)
	}
	if len(found) > maxAttached {
		return nil, usage("%s: %d evidence packages are attached there, want at most %d; import a package as a file", address, len(found), maxAttached)
	}
	var list []*evidence.Package
	for _, f := range slices.Backward(found) {
		body, err := repo.Fetch(ctx, f, evidence.MaxPackage)
		if err != nil {
			return nil, fromRegistry(err)
		}
		pkg, err := evidence.Read(bytes.NewReader(body), int64(len(body)))
		if err != nil {
			return nil, &exitError{exitFalse, fmt.Errorf("%s: package %s: %w", address, f.Manifest, err)}
		}
		if err := pkg.Publishable(); err != nil {
			return nil, &exitError{exitFalse, fmt.Errorf("%s: package %s: nothing was imported: %w; and have it taken down", address, f.Manifest, err)}
		}
		list = append(list, pkg)
	}
	return list, nil
}

// importRegistry takes what a registry keeps, each package after all of its checks.
func (a *app) importRegistry(ctx context.Context, p *project, address string, plain bool) (importResult, error) {
	list, err := packagesAt(ctx, address, plain)
	if err != nil {
		return importResult{}, err
	}
	var sum importResult
	seen := map[godigest.Digest]bool{}
	for _, pkg := range list {
		in := incoming{pkg: pkg}
		res, err := p.take(ctx, in)
		if err != nil {
			var lied *ledger.Contradiction
			if errors.As(err, &lied) {
				err = errors.Join(a.showContradiction(lied, pkg.Checkpoint), err)
			}
			return sum, err
		}
		for _, e := range pkg.Index.Entries {
			seen[e.Leaf.Bundle] = true
		}
		if sum.Origin != "" {
			res.Origin, res.Size = sum.Origin, sum.Size // of the newest
		}
		sum = importResult{res.Origin, res.Size, len(seen), sum.Added + res.Added, sum.Objects + res.Objects, res.Withheld, sum.Private + res.Private, res.Sources}
		p.others = nil // what was kept just now vouches too
	}
	return sum, nil
}
