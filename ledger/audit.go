package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	godigest "github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/tlog"
)

// Names of the checks over entries.
const (
	CheckEntry  = "entry is there"            // a record and a bundle at every index
	CheckLeaf   = "leaf is canonical"         // the stored leaf parses
	CheckBundle = "bundle has the digest"     // stored bundle against leaf, row and lookup
	CheckSigned = "bundle says the same"      // PAE and predicate type against the leaf
	CheckIndex  = "index says the same"       // stored artifacts against the bundle's
	CheckNodes  = "stored nodes recompute"    // stored tree nodes against the leaves
	CheckRoot   = "checkpoint root recompute" // every checkpoint's root against the leaves
	CheckNote   = "checkpoint is signed"      // every checkpoint outside
	CheckStore  = "store is whole"            // the engine's own structures
)

// audit re-derives the entries from..to before a checkpoint covers them, so
// that nothing is signed because it happened to lie in the database.
func (l *Log) audit(ctx context.Context, from, to int64) error {
	for i := from; i < to; i++ {
		findings, hash, err := l.checkEntry(ctx, LeafIndex(i))
		if err != nil {
			return err
		}
		if len(findings) == 0 {
			findings, err = l.checkNodes(ctx, i, hash, hashReader{ctx, l.store})
			if err != nil {
				return err
			}
		}
		if len(findings) > 0 {
			return &EntryError{findings[0]}
		}
	}
	return nil
}

// checkEntry compares everything that is stored for one entry with its bundle,
// and returns the leaf hash of the stored leaf. An error says that the store
// could not be read.
func (l *Log) checkEntry(ctx context.Context, index LeafIndex) ([]Finding, tlog.Hash, error) {
	var findings []Finding
	add := func(check, got, want string) {
		findings = append(findings, Finding{Check: check, Where: where(index), Got: got, Want: want})
	}
	r, err := l.store.Record(ctx, index)
	if errors.Is(err, ErrNotFound) {
		add(CheckEntry, "no record", "one")
		// Its stored hash lets the rest of the tree be checked without it.
		hashes, err := l.store.Hashes(ctx, []int64{tlog.StoredHashIndex(0, int64(index))})
		if errors.Is(err, ErrNotFound) {
			return findings, tlog.Hash{}, nil
		}
		if err != nil {
			return nil, tlog.Hash{}, fmt.Errorf("ledger: nodes of %s: %w", where(index), err)
		}
		return findings, hashes[0], nil
	}
	if err != nil {
		return nil, tlog.Hash{}, fmt.Errorf("ledger: read %s: %w", where(index), err)
	}
	hash := tlog.RecordHash(r.Leaf)
	bundle, err := l.store.Bundle(ctx, index)
	if errors.Is(err, ErrNotFound) {
		add(CheckEntry, "no bundle", "one")
		return findings, hash, nil
	}
	if err != nil {
		return nil, tlog.Hash{}, fmt.Errorf("ledger: read the bundle of %s: %w", where(index), err)
	}
	leaf, err := ParseLeaf(r.Leaf)
	if err != nil {
		add(CheckLeaf, err.Error(), "a canonical leaf")
		return findings, hash, nil
	}
	digest := godigest.FromBytes(bundle)
	if digest != leaf.Bundle {
		add(CheckBundle, fmt.Sprintf("a bundle with digest %s", digest), fmt.Sprintf("%s as in the leaf", leaf.Bundle))
		return findings, hash, nil
	}
	if r.Bundle != leaf.Bundle {
		add(CheckBundle, fmt.Sprintf("%s in the row", r.Bundle), fmt.Sprintf("%s as in the leaf", leaf.Bundle))
	}
	switch at, err := l.store.ByBundle(ctx, leaf.Bundle); {
	case errors.Is(err, ErrNotFound):
		add(CheckBundle, "a look-up by digest that finds nothing", where(index))
	case err != nil:
		return nil, tlog.Hash{}, fmt.Errorf("ledger: look up the bundle of %s: %w", where(index), err)
	case at != index:
		add(CheckBundle, fmt.Sprintf("a look-up by digest that finds %s", where(at)), where(index))
	}
	x, err := l.opt.Index(bundle)
	if err != nil {
		add(CheckSigned, fmt.Sprintf("a bundle that cannot be read: %v", err), "a bundle")
		return findings, hash, nil
	}
	if x.PAE != leaf.PAE {
		add(CheckSigned, fmt.Sprintf("PAE %s in the leaf", leaf.PAE), fmt.Sprintf("%s as in the bundle", x.PAE))
	}
	if x.PredicateType != leaf.PredicateType {
		add(CheckSigned, fmt.Sprintf("predicate type %q in the leaf", leaf.PredicateType), fmt.Sprintf("%q as in the bundle", x.PredicateType))
	}
	if got, want := difference(r.Subjects, x.Subjects); got != want {
		add(CheckIndex, "subjects "+got, want+" as in the bundle")
	}
	if got, want := difference(r.Dependencies, x.Dependencies); got != want {
		add(CheckIndex, "dependencies "+got, want+" as in the bundle")
	}
	return findings, hash, nil
}

// checkNodes compares the nodes stored for entry n with those that its leaf
// hash completes; r gives the nodes to its left.
func (l *Log) checkNodes(ctx context.Context, n int64, leaf tlog.Hash, r tlog.HashReader) ([]Finding, error) {
	want, err := tlog.StoredHashesForRecordHash(n, leaf, r)
	if err != nil {
		return nil, fmt.Errorf("ledger: nodes of %s: %w", where(LeafIndex(n)), err)
	}
	first := tlog.StoredHashIndex(0, n)
	indexes := make([]int64, len(want))
	for i := range indexes {
		indexes[i] = first + int64(i)
	}
	got, err := l.store.Hashes(ctx, indexes)
	if errors.Is(err, ErrNotFound) {
		return []Finding{{CheckNodes, where(LeafIndex(n)), err.Error(), "every node"}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ledger: nodes of %s: %w", where(LeafIndex(n)), err)
	}
	if !slices.Equal(got, want) {
		i := 0
		for got[i] == want[i] {
			i++
		}
		return []Finding{{CheckNodes, fmt.Sprintf("%s, node at level %d", where(LeafIndex(n)), i), got[i].String(), want[i].String()}}, nil
	}
	return nil, nil
}

func where(i LeafIndex) string { return fmt.Sprintf("entry %d", i) }
