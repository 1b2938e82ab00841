package ledger

import (
	"context"
	"errors"
	"fmt"

	godigest "github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/tlog"
)

// Append adds a bundle of at most MaxBundleBytes. When it returns nil the
// entry is durable in the store and covered by a signed checkpoint outside.
//
// The same bundle again adds nothing: the entry that is there comes back with
// Existed set. So after any error, of which nobody can say whether the entry
// became durable before it, appending again is right and safe.
//
// The Entry shares memory with bundle. [ErrReadOnly] without a signer;
// otherwise errors as from [Open].
func (l *Log) Append(ctx context.Context, bundle []byte) (Entry, error) {
	if l.opt.Signer == nil {
		return Entry{}, ErrReadOnly
	}
	if len(bundle) == 0 || len(bundle) > MaxBundleBytes {
		return Entry{}, fmt.Errorf("ledger: append: bundle of %d bytes, want 1 to %d", len(bundle), MaxBundleBytes)
	}
	x, err := l.opt.Index(bundle)
	if err != nil {
		return Entry{}, fmt.Errorf("ledger: append: read the bundle: %w", err)
	}
	if err := x.check(); err != nil {
		return Entry{}, fmt.Errorf("ledger: append: what the bundle says: %w", err)
	}
	e, err := l.add(ctx, bundle, x)
	if err != nil {
		return Entry{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.advance(ctx); err != nil {
		return Entry{}, fmt.Errorf("ledger: append: %s is in the store but no checkpoint covers it yet: %w", where(e.Index), err)
	}
	return e, nil
}

// add makes the entry durable, or finds the one that is there.
func (l *Log) add(ctx context.Context, bundle []byte, x Index) (Entry, error) {
	digest := godigest.FromBytes(bundle)
	for range maxConflicts {
		e, err := l.existing(ctx, digest)
		if !errors.Is(err, ErrNotFound) {
			return e, err
		}
		size, err := l.Size(ctx)
		if err != nil {
			return Entry{}, err
		}
		if size == MaxEntries {
			return Entry{}, fmt.Errorf("ledger: append: the log is full with %d entries", size)
		}
		leaf := Leaf{
			Type: LeafType, PAE: x.PAE, Bundle: digest, PredicateType: x.PredicateType,
			Appended: l.opt.Now().UTC().Format(timeLayout),
		}
		canonical, err := leaf.Canonical()
		if err != nil {
			return Entry{}, err
		}
		hashes, err := tlog.StoredHashes(size, canonical, hashReader{ctx, l.store})
		if err != nil {
			return Entry{}, fmt.Errorf("ledger: append at %d: nodes: %w", size, err)
		}
		r := Record{Leaf: canonical, Bundle: digest, Subjects: x.Subjects, Dependencies: x.Dependencies}
		err = l.store.Append(ctx, size, r, bundle, hashes)
		if errors.Is(err, ErrConflict) || errors.Is(err, ErrDuplicate) {
			continue
		}
		if err != nil {
			return Entry{}, fmt.Errorf("ledger: append at %d: %w; append the same bundle again", size, err)
		}
		return Entry{Index: LeafIndex(size), Leaf: leaf, Bundle: bundle, Subjects: x.Subjects, Dependencies: x.Dependencies}, nil
	}
	return Entry{}, fmt.Errorf("ledger: append: %w, %d times in a row; append the same bundle again when there are fewer writers", ErrConflict, maxConflicts)
}

// existing finds the entry that holds a bundle; ErrNotFound.
func (l *Log) existing(ctx context.Context, digest godigest.Digest) (Entry, error) {
	index, err := l.store.ByBundle(ctx, digest)
	if errors.Is(err, ErrNotFound) {
		return Entry{}, err
	}
	if err != nil {
		return Entry{}, fmt.Errorf("ledger: look up bundle %s: %w", digest, err)
	}
	e, err := l.Entry(ctx, index)
	if errors.Is(err, ErrNotFound) {
		return Entry{}, &EntryError{Finding{CheckBundle, where(index), "no entry", digest.String() + " as in the look-up"}}
	}
	if err != nil {
		return Entry{}, err
	}
	if e.Leaf.Bundle != digest {
		return Entry{}, &EntryError{Finding{CheckBundle, where(index), e.Leaf.Bundle.String() + " in the leaf", digest.String() + " as in the look-up"}}
	}
	e.Existed = true
	return e, nil
}
