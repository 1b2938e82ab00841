package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	godigest "github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/note"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/imported"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages"
	"github.com/weighmaster/weighmaster/verify/evidence"
)

// examined is what passed every check and is not in the ledger yet.
type examined struct {
	own     bool  // the other log is this project's own
	size    int64 // entries under the other log's checkpoint
	bundles [][]byte
	entries []imported.Entry // as bundles
	earlier []earlier        // what still other logs vouch for of them
	sources string           // what was found of the machines' snapshots
}

// earlier is an entry in a log before the one that it is imported from.
type earlier struct {
	origin     string
	size       int64
	checkpoint []byte
	entry      imported.Entry
}

// keyOf is the key that trust.yaml pins for a log.
func (p *project) keyOf(origin string) (note.Verifier, error) {
	if origin == p.trust.Log.Origin {
		return p.logKey, nil
	}
	for _, l := range p.trust.Logs {
		if l.Origin != origin {
			continue
		}
		key, err := logKey(l)
		if err != nil {
			return nil, usage("%s: logs: %v", trustFile, err)
		}
		return key, nil
	}
	return nil, usage("%s names no log %.255q under logs:; add its origin and key there if you believe what it says (the other project's %s has them under log:)", trustFile, origin, trustFile)
}

// logKey reads the key of a log, which has the log's name.
func logKey(l schemas.LogKey) (note.Verifier, error) {
	key, err := note.NewVerifier(strings.TrimSpace(l.Key))
	if err != nil {
		return nil, fmt.Errorf("key of %s: %w", l.Origin, err)
	}
	if key.Name() != l.Origin {
		return nil, fmt.Errorf("the key of %s is named %q, want the origin", l.Origin, key.Name())
	}
	return key, nil
}

func refuse(format string, args ...any) error {
	return &exitError{exitFalse, fmt.Errorf("nothing was imported: "+format, args...)}
}

// examine makes every check. Nothing is written.
func (p *project) examine(ctx context.Context, in incoming) (*examined, error) {
	pkg := in.pkg
	key, err := p.keyOf(pkg.Index.Origin)
	if err != nil {
		return nil, err
	}
	i := &examined{own: pkg.Index.Origin == p.trust.Log.Origin}
	if len(pkg.Bundles) == 0 {
		return nil, usage("the evidence has no entries; there is nothing to import")
	}
	view := ledger.NewView(key)
	newest, err := p.recall(ctx, view, pkg.Index.Origin)
	if err != nil {
		return nil, err
	}
	checkpoint, err := view.Checkpoint(pkg.Checkpoint)
	if err != nil {
		return nil, orContradiction(err, "the other log's checkpoint")
	}
	i.size = checkpoint.Size
	if i.own {
		if _, err := p.log.Extends(ctx, pkg.Checkpoint); err != nil {
			return nil, orContradiction(err, "this ledger against a checkpoint that it signed")
		}
	}
	if in.extends != nil && newest != nil {
		if err := in.extends(ctx, newest); err != nil {
			return nil, orContradiction(err, "the other log against the checkpoint that was kept of it")
		}
	}
	claims, err := p.examineEntries(ctx, pkg, view, i)
	if err != nil {
		return nil, err
	}
	if err := p.examineObjects(ctx, pkg, claims); err != nil {
		return nil, err
	}
	if err := examinePrivate(pkg, claims); err != nil {
		return nil, err
	}
	if i.sources, err = p.examineSources(ctx, claims); err != nil {
		return nil, err
	}
	if newest == nil || len(i.bundles) == 0 {
		return i, nil
	}
	kept, err := ledger.ParseCheckpoint(newest, key)
	if err != nil {
		return nil, err
	}
	if checkpoint.Size < kept.Size {
		return nil, refuse("the checkpoint of %s has %d entries, and one of %d was kept from an earlier import: the log was cut back, or this evidence is older and its new entries cannot be held against what is known; ask for evidence of today",
			pkg.Index.Origin, checkpoint.Size, kept.Size)
	}
	return i, nil
}

// orContradiction lets a contradiction through as it is, for its own exit code.
func orContradiction(err error, what string) error {
	var lied *ledger.Contradiction
	var edited *ledger.EntryError
	if errors.As(err, &lied) || errors.As(err, &edited) {
		return err
	}
	return refuse("%s: %w", what, err)
}

// recall shows the view all that is kept of the log, and returns the newest
// checkpoint, nil if nothing is kept.
func (p *project) recall(ctx context.Context, view *ledger.View, origin string) ([]byte, error) {
	kept := p.imported.Log(origin)
	checkpoints, err := kept.Checkpoints()
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var newest []byte
	for size, err := range checkpoints.Sizes(ctx) {
		if err != nil {
			return nil, err
		}
		if newest, err = checkpoints.At(ctx, size); err != nil {
			return nil, err
		}
		if _, err := view.Checkpoint(newest); err != nil {
			return nil, fmt.Errorf("%s of %s, kept of size %d: %w", importedDir, origin, size, err)
		}
	}
	for e, err := range kept.Entries() {
		if err != nil {
			return nil, err
		}
		if _, _, err := view.Entry(e.Proof, e.Leaf); err != nil {
			return nil, fmt.Errorf("%s of %s, bundle %s: %w", importedDir, origin, e.Leaf.Bundle, err)
		}
	}
	return newest, nil
}

// checkImported holds all that is kept of each other log against its key and
// against itself.
func (p *project) checkImported(ctx context.Context) error {
	logs, err := p.imported.Logs()
	if err != nil {
		return err
	}
	for _, l := range logs {
		key, err := p.keyOf(l.Origin())
		if err != nil {
			return err
		}
		if _, err := p.recall(ctx, ledger.NewView(key), l.Origin()); err != nil {
			return &exitError{exitFalse, err}
		}
	}
	return nil
}

func (p *project) examineEntries(ctx context.Context, pkg *evidence.Package, view *ledger.View, i *examined) ([]attest.Claim, error) {
	var claims []attest.Claim
	views := map[string]*ledger.View{}
	for n, bundle := range pkg.Bundles {
		e, proof := pkg.Index.Entries[n], pkg.Proofs[n]
		where := fmt.Sprintf("entry %d of %s", e.Index, pkg.Index.Origin)
		index, under, err := view.Entry(proof, e.Leaf)
		switch {
		case err != nil:
			return nil, orContradiction(err, "proof of "+where)
		case index != e.Index:
			return nil, refuse("proof of %s: a proof of entry %d", where, index)
		case under.Size != i.size:
			return nil, refuse("proof of %s: under a checkpoint of %d entries, want the evidence's of %d", where, under.Size, i.size)
		}
		if got := godigest.FromBytes(bundle); got != e.Leaf.Bundle {
			return nil, refuse("bundle of %s: digest %s, want %s as its leaf says", where, got, e.Leaf.Bundle)
		}
		leaf := e.Leaf
		before, err := p.examineEarlier(ctx, views, e, pkg.VouchedFor(n))
		if err != nil {
			return nil, err
		}
		if before != nil {
			leaf = before.entry.Leaf
		}
		at, err := time.Parse(time.RFC3339, leaf.Appended)
		if err == nil && at.After(time.Now()) {
			err = fmt.Errorf("appended %s, which is after now", leaf.Appended)
		}
		var claim attest.Claim
		if err == nil {
			claim, err = p.verifier.Verify(ctx, bundle, at)
		}
		switch {
		case err != nil:
			return nil, refuse("bundle of %s: %w", where, err)
		case claim.PAE() != e.Leaf.PAE || claim.PredicateType() != e.Leaf.PredicateType:
			return nil, refuse("bundle of %s: %s, %s; want %s, %s as its leaf says", where, claim.PredicateType(), claim.PAE(), e.Leaf.PredicateType, e.Leaf.PAE)
		}
		claims = append(claims, claim)
		switch _, err := p.store.ByBundle(ctx, e.Leaf.Bundle); {
		case err == nil:
		case !errors.Is(err, ledger.ErrNotFound):
			return nil, err
		case i.own:
			return nil, refuse("%s is under a checkpoint of this very log and not in the ledger", where)
		default:
			i.bundles = append(i.bundles, bundle)
			i.entries = append(i.entries, imported.Entry{Leaf: e.Leaf, Proof: proof})
			if before != nil {
				i.earlier = append(i.earlier, *before)
			}
		}
	}
	return claims, nil
}

// examineEarlier checks what the log that an entry came from, before the one
// that it is imported from, says of it; nil if there is none that is believed.
func (p *project) examineEarlier(ctx context.Context, views map[string]*ledger.View, e evidence.Entry, proof []byte) (*earlier, error) {
	if e.Imported == nil || e.Imported.Origin == p.trust.Log.Origin {
		return nil, nil
	}
	origin, leaf := e.Imported.Origin, e.Imported.Leaf
	key, err := p.keyOf(origin)
	if err != nil {
		return nil, nil // nobody believes it: the word of the log in between counts
	}
	view := views[origin]
	if view == nil {
		view = ledger.NewView(key)
		if _, err := p.recall(ctx, view, origin); err != nil {
			return nil, err
		}
		views[origin] = view
	}
	_, under, err := view.Entry(proof, leaf)
	if err != nil {
		return nil, orContradiction(err, fmt.Sprintf("proof of entry %d by %s, where it came from", e.Index, origin))
	}
	if leaf.Bundle != e.Leaf.Bundle {
		return nil, refuse("entry %d: %s, where it came from, has bundle %s; want %s", e.Index, origin, leaf.Bundle, e.Leaf.Bundle)
	}
	parsed, err := ledger.ParseProof(proof)
	if err != nil {
		return nil, err
	}
	return &earlier{origin, under.Size, parsed.Checkpoint, imported.Entry{Leaf: leaf, Proof: proof}}, nil
}

// examineObjects wants every object to be one that a claim names, with its
// digest, and everything that the claims name to be here or withheld.
func (p *project) examineObjects(ctx context.Context, pkg *evidence.Package, claims []attest.Claim) error {
	named := map[godigest.Digest]string{}
	runs, _ := policy.Runs(claims)
	for _, run := range runs {
		for _, d := range run.Evidence() {
			named[d] = run.External.Stage
		}
	}
	withheld := map[godigest.Digest]bool{}
	for _, o := range pkg.Index.Withheld {
		withheld[o.Digest] = true
	}
	for d, body := range pkg.Objects {
		switch got := godigest.FromBytes(body); {
		case got != d:
			return refuse("evidence object %s: its bytes have the digest %s", d, got)
		case withheld[d]:
			return refuse("evidence object %s is named as private, and its bytes travel all the same; tell the sender", d)
		case named[d] == "":
			return refuse("evidence object %s is named by no claim", d)
		}
	}
	for d := range pkg.Private {
		withheld[d] = true // it is looked at by itself
	}
	for d, stage := range named {
		if _, here := pkg.Objects[d]; here || withheld[d] {
			continue
		}
		if _, err := p.objects.Stat(ctx, d); err != nil {
			return usage("nothing was imported: evidence object %s of stage %s is missing; ask the sender for the evidence again", d, stage)
		}
	}
	return nil
}

// examineSources holds what this ledger's machines acquired against what the
// incoming claims say was acquired.
func (p *project) examineSources(ctx context.Context, incoming []attest.Claim) (string, error) {
	all, err := p.allClaims(ctx)
	if err != nil {
		return "", err
	}
	known := map[godigest.Digest]bool{}
	for _, c := range all {
		known[c.Bundle()] = true
	}
	for _, c := range incoming {
		if !known[c.Bundle()] {
			all = append(all, c)
		}
	}
	words, err := stages.CompareSources(all)
	if err != nil {
		return "", refuse("%w", err)
	}
	return words, nil
}
