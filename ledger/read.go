package ledger

import (
	"context"
	"fmt"
	"iter"
	"slices"

	godigest "github.com/opencontainers/go-digest"
)

// Size returns the number of entries in the store. A store that claims more
// than MaxEntries is damaged: *[EntryError].
func (l *Log) Size(ctx context.Context) (int64, error) {
	size, err := l.store.Size(ctx)
	if err != nil {
		return 0, fmt.Errorf("ledger: read the store's size: %w", err)
	}
	if size < 0 || size > MaxEntries {
		return 0, &EntryError{Finding{CheckEntry, "store", fmt.Sprintf("%d entries", size), fmt.Sprintf("0 to %d", int64(MaxEntries))}}
	}
	return size, nil
}

// Entry returns one entry; [ErrNotFound] past the end. The bundle's digest is
// compared with the leaf's, so an altered bundle is an *[EntryError].
func (l *Log) Entry(ctx context.Context, index LeafIndex) (Entry, error) {
	e, err := l.record(ctx, index)
	if err != nil {
		return Entry{}, err
	}
	e.Bundle, err = l.store.Bundle(ctx, index)
	if err != nil {
		return Entry{}, fmt.Errorf("ledger: bundle of %s: %w", where(index), err)
	}
	if got := godigest.FromBytes(e.Bundle); got != e.Leaf.Bundle {
		return Entry{}, &EntryError{Finding{CheckBundle, where(index), "a bundle with digest " + got.String(), e.Leaf.Bundle.String() + " as in the leaf"}}
	}
	return e, nil
}

// record returns an entry without its bundle.
func (l *Log) record(ctx context.Context, index LeafIndex) (Entry, error) {
	r, err := l.store.Record(ctx, index)
	if err != nil {
		return Entry{}, fmt.Errorf("ledger: %s: %w", where(index), err)
	}
	leaf, err := ParseLeaf(r.Leaf)
	if err != nil {
		return Entry{}, &EntryError{Finding{CheckLeaf, where(index), err.Error(), "a canonical leaf"}}
	}
	return Entry{Index: index, Leaf: leaf, Subjects: r.Subjects, Dependencies: r.Dependencies}, nil
}

// Entries goes through the entries that are there when it starts, in order. It
// holds one of them in memory at a time and stops at the first error.
func (l *Log) Entries(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		size, err := l.Size(ctx)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		for i := range size {
			e, err := l.Entry(ctx, LeafIndex(i))
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Find returns, in order, the entries that have the digest among their
// subjects or dependencies; none is not an error. [ErrTooMany] above MaxFound
// entries or MaxFoundBytes of bundles.
func (l *Log) Find(ctx context.Context, artifact godigest.Digest) ([]Entry, error) {
	if err := checkDigest(artifact); err != nil {
		return nil, fmt.Errorf("ledger: find: %w", err)
	}
	indexes, err := l.naming(ctx, artifact)
	if err != nil {
		return nil, err
	}
	var found []Entry
	bytes := 0
	for _, i := range indexes {
		e, err := l.Entry(ctx, i)
		if err != nil {
			return nil, err
		}
		if bytes += len(e.Bundle); bytes > MaxFoundBytes {
			return nil, fmt.Errorf("ledger: find %s: %w: bundles of more than %d bytes; use the lineage instead", artifact, ErrTooMany, MaxFoundBytes)
		}
		found = append(found, e)
	}
	return found, nil
}

// naming lists, ascending, the entries that name an artifact in either role.
func (l *Log) naming(ctx context.Context, artifact godigest.Digest) ([]LeafIndex, error) {
	var lists [2][]LeafIndex
	for role := range lists {
		list, err := l.store.ByArtifact(ctx, artifact, Role(role), 0, MaxFound+1)
		if err != nil {
			return nil, fmt.Errorf("ledger: find %s: %w", artifact, err)
		}
		lists[role] = list
	}
	merged := slices.Concat(lists[0], lists[1])
	slices.Sort(merged)
	merged = slices.Compact(merged)
	if len(merged) > MaxFound {
		return nil, fmt.Errorf("ledger: find %s: %w: more than %d entries name it; use the lineage instead", artifact, ErrTooMany, MaxFound)
	}
	return merged, nil
}
