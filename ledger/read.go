package ledger

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	godigest "github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/tlog"
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

// Entry returns one entry; [ErrNotFound] past the end. An altered entry is an
// *[EntryError]: its leaf must be in the tree of the newest checkpoint that this
// Log has compared (RFC 6962 section 2.1.1), or, where the tree is ahead of it,
// have the stored leaf hash; the bundle must have the digest in the leaf, and
// say what the stored index says. It reads O(log n) of the tree.
func (l *Log) Entry(ctx context.Context, index LeafIndex) (Entry, error) {
	e, hash, err := l.entry(ctx, index)
	if err != nil {
		return Entry{}, err
	}
	if err := l.included(ctx, index, hash); err != nil {
		return Entry{}, err
	}
	return e, nil
}

// entry returns an entry that agrees with itself, and its leaf hash.
func (l *Log) entry(ctx context.Context, index LeafIndex) (Entry, tlog.Hash, error) {
	e, hash, err := l.record(ctx, index)
	if err != nil {
		return Entry{}, hash, err
	}
	e.Bundle, err = l.store.Bundle(ctx, index)
	if err != nil {
		return Entry{}, hash, fmt.Errorf("ledger: bundle of %s: %w", where(index), err)
	}
	refuse := func(check, got, want string) (Entry, tlog.Hash, error) {
		return Entry{}, hash, &EntryError{Finding{check, where(index), got, want}}
	}
	if got := godigest.FromBytes(e.Bundle); got != e.Leaf.Bundle {
		return refuse(CheckBundle, "a bundle with digest "+got.String(), e.Leaf.Bundle.String()+" as in the leaf")
	}
	x, err := l.opt.Index(e.Bundle)
	if err != nil {
		return refuse(CheckSigned, fmt.Sprintf("a bundle that cannot be read: %v", err), "a bundle")
	}
	if got, want := difference(e.Subjects, x.Subjects); got != want {
		return refuse(CheckIndex, "subjects "+got, want+" as in the bundle")
	}
	if got, want := difference(e.Dependencies, x.Dependencies); got != want {
		return refuse(CheckIndex, "dependencies "+got, want+" as in the bundle")
	}
	return e, hash, nil
}

// record returns an entry without its bundle, and its leaf hash.
func (l *Log) record(ctx context.Context, index LeafIndex) (Entry, tlog.Hash, error) {
	r, err := l.store.Record(ctx, index)
	if err != nil {
		return Entry{}, tlog.Hash{}, fmt.Errorf("ledger: %s: %w", where(index), err)
	}
	leaf, err := ParseLeaf(r.Leaf)
	if err != nil {
		return Entry{}, tlog.Hash{}, &EntryError{Finding{CheckLeaf, where(index), err.Error(), "a canonical leaf"}}
	}
	return Entry{Index: index, Leaf: leaf, Subjects: r.Subjects, Dependencies: r.Dependencies}, tlog.RecordHash(r.Leaf), nil
}

// compared is the newest checkpoint that this Log has compared with the tree.
func (l *Log) compared() (Checkpoint, []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known, l.signed
}

// included says whether the tree has a leaf hash at an index.
func (l *Log) included(ctx context.Context, index LeafIndex, hash tlog.Hash) error {
	known, _ := l.compared()
	r := hashReader{ctx, l.store}
	if int64(index) >= known.Size {
		stored, err := r.ReadHashes([]int64{tlog.StoredHashIndex(0, int64(index))})
		if err != nil {
			return unreadable(index, err)
		}
		if stored[0] != hash {
			return &EntryError{Finding{CheckNodes, where(index), stored[0].String(), hash.String() + " of the leaf"}}
		}
		return nil
	}
	proof, err := tlog.ProveRecord(known.Size, int64(index), r)
	if err != nil {
		return unreadable(index, err)
	}
	if tlog.CheckRecord(proof, known.Size, known.Root, int64(index), hash) != nil {
		return &EntryError{Finding{CheckRoot, where(index), "a leaf with the hash " + hash.String(),
			fmt.Sprintf("the leaf that is in the tree of %d entries with the root %s, as signed", known.Size, known.Root)}}
	}
	return nil
}

// unreadable is the error of nodes that could not be read. One that is missing
// is the entry's fault, not that of who asks for an entry past the end.
func unreadable(index LeafIndex, err error) error {
	if errors.Is(err, ErrNotFound) {
		return &EntryError{Finding{CheckNodes, where(index), err.Error(), "every node"}}
	}
	return fmt.Errorf("ledger: inclusion of %s: %w", where(index), err)
}

// Entries goes through the entries that are there when it starts, in order. It
// holds one of them in memory at a time and stops at the first error. Each is
// compared with itself as by [Log.Entry], all of them together with the
// newest checkpoint that this Log has compared: they may be believed only after
// the last one came without an error. *[Contradiction] says that the stored
// entries are not those that were signed.
func (l *Log) Entries(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		size, err := l.Size(ctx)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		known, signed := l.compared()
		if err := l.extends(ctx, known, signed, size); err != nil {
			yield(Entry{}, err)
			return
		}
		var f frontier
		for i := range size {
			e, hash, err := l.entry(ctx, LeafIndex(i))
			if err == nil {
				err = f.push(i, hash)
			}
			if err == nil && i+1 == known.Size {
				err = f.agrees(known, signed, size)
			}
			if err == nil && i >= known.Size {
				err = l.included(ctx, LeafIndex(i), hash)
			}
			if err != nil {
				e = Entry{}
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// agrees compares the entries that went by with a checkpoint of as many.
func (f *frontier) agrees(c Checkpoint, signed []byte, size int64) error {
	root, err := tlog.TreeHash(c.Size, f)
	if err != nil {
		return fmt.Errorf("ledger: root of the first %d entries: %w", c.Size, err)
	}
	if root != c.Root {
		return &Contradiction{
			Reason: fmt.Sprintf("it signed the root %s for the first %d entries and the stored ones have another", c.Root, c.Size),
			Signed: signed, Size: size, At: c.Size, Root: root,
		}
	}
	return nil
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
