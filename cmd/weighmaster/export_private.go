package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/ledger/objects"
	"github.com/weighmaster/weighmaster/verify/evidence"
)

// ownSuffix ends the name of a package for another machine of one's own.
const ownSuffix = ".private.zip"

// exportPrivate writes a package with everything that the claims name: also
// private objects, logs and arrays. It is marked, and published by nothing here.
func (p *project) exportPrivate(ctx context.Context, artifact, out string) (string, error) {
	if out == "" {
		out = artifact + ownSuffix
	}
	if strings.HasSuffix(strings.ToLower(out), packageSuffix) {
		return "", usage("--out %s: a name that ends with %s is that of a public package, which travels with the file; want one such as %s", out, packageSuffix, artifact+ownSuffix)
	}
	file, err := describe(ctx, artifact)
	if err != nil {
		return "", err
	}
	pkg, err := p.collect(ctx, file)
	if err != nil {
		return "", err
	}
	if err := p.addPrivate(ctx, pkg); err != nil {
		return "", err
	}
	return out, writePackage(pkg, out)
}

// addPrivate adds what a public package leaves out, as long as it fits.
func (p *project) addPrivate(ctx context.Context, pkg *evidence.Package) error {
	withheld := pkg.Index.Withheld
	pkg.Index.Withheld, pkg.Private = []evidence.Object{}, map[godigest.Digest][]byte{}
	var total int64
	for _, o := range pkg.Index.Objects {
		total += o.Size
	}
	add := func(d godigest.Digest) error {
		if _, public := pkg.Objects[d]; public || pkg.Private[d] != nil {
			return nil
		}
		o, err := p.objects.Stat(ctx, d)
		if errors.Is(err, objects.ErrNotFound) {
			return nil // of an imported claim; it stayed behind there
		}
		if err != nil {
			return err
		}
		described := evidence.Object{Digest: d, Size: o.Size, MediaType: o.MediaType}
		if total += o.Size; o.Size > evidence.MaxMember || total > evidence.MaxTotal/2 {
			return usage("evidence object %s of %d bytes makes the package larger than it may be; copy the folder %s by other means", d, o.Size, evidenceDir)
		}
		body, _, err := p.objects.Get(ctx, d)
		if err != nil {
			return err
		}
		pkg.Index.Private = append(pkg.Index.Private, evidence.Private{Object: described, Public: o.Public})
		pkg.Private[d] = body
		return nil
	}
	for _, o := range withheld {
		if err := add(o.Digest); err != nil {
			return err
		}
	}
	for _, entry := range pkg.Index.Entries {
		for _, d := range byproducts(p.claims[entry.Leaf.Bundle]) {
			if err := add(d); err != nil {
				return err
			}
		}
	}
	if len(pkg.Index.Private) == 0 {
		return usage("there is nothing private about %s; export the public package", pkg.Index.File.Name)
	}
	return nil
}

// byproducts are the digests of all that a run's provenance names as such.
func byproducts(c attest.Claim) []godigest.Digest {
	var p provenance.Provenance
	if c.PredicateType() != attest.ProvenanceType || protojson.Unmarshal(c.Predicate(), &p) != nil {
		return nil
	}
	var list []godigest.Digest
	for _, b := range p.GetRunDetails().GetByproducts() {
		if d := godigest.NewDigestFromEncoded(godigest.SHA256, b.GetDigest()["sha256"]); d.Validate() == nil {
			list = append(list, d)
		}
	}
	return list
}

// examinePrivate wants every private object to be one that a claim names, with its digest.
func examinePrivate(pkg *evidence.Package, claims []attest.Claim) error {
	if len(pkg.Private) == 0 {
		return nil
	}
	named := map[godigest.Digest]bool{}
	for _, c := range claims {
		for _, d := range byproducts(c) {
			named[d] = true
		}
	}
	for d, body := range pkg.Private {
		switch got := godigest.FromBytes(body); {
		case got != d:
			return refuse("private evidence object %s: its bytes have the digest %s", d, got)
		case !named[d]:
			return refuse("private evidence object %s is named by no claim", d)
		}
	}
	return nil
}

// sayPrivate is what an export of private evidence says of itself.
func sayPrivate(out string) string {
	return fmt.Sprintf("%s\nIt holds private evidence: it is for another machine of your own, not for publication.\n", out)
}
