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
	entries, err := l.AppendAll(ctx, [][]byte{bundle})
	if err != nil {
		return Entry{}, err
	}
	return entries[0], nil
}

// AppendAll is [Log.Append] for at most MaxBatchEntries bundles of at most
// MaxBatchBytes together: one transaction adds all of them that are not in the
// log, in order, or none, and one checkpoint covers them. It returns one entry
// for each bundle, in their order; Existed is set also where a bundle repeats
// one before it. A single bundle that is refused refuses all.
func (l *Log) AppendAll(ctx context.Context, bundles [][]byte) ([]Entry, error) {
	if l.opt.Signer == nil {
		return nil, ErrReadOnly
	}
	batch, err := l.read(bundles)
	if err != nil {
		return nil, err
	}
	entries, err := l.add(ctx, batch)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.advance(ctx); err != nil {
		return nil, fmt.Errorf("ledger: append: the entries are in the store but no checkpoint covers them yet: %w", err)
	}
	return entries, nil
}

// incoming is a bundle that was read and is to be appended.
type incoming struct {
	bundle []byte
	digest godigest.Digest
	index  Index
}

// read reads every bundle before anything is written.
func (l *Log) read(bundles [][]byte) ([]incoming, error) {
	if len(bundles) > MaxBatchEntries {
		return nil, fmt.Errorf("ledger: append: %w: %d bundles at once, want at most %d", ErrTooMany, len(bundles), MaxBatchEntries)
	}
	total := 0
	batch := make([]incoming, len(bundles))
	for i, b := range bundles {
		which := ""
		if len(bundles) > 1 {
			which = fmt.Sprintf(" %d of %d", i+1, len(bundles))
		}
		if len(b) == 0 || len(b) > MaxBundleBytes {
			return nil, fmt.Errorf("ledger: append: bundle%s of %d bytes, want 1 to %d", which, len(b), MaxBundleBytes)
		}
		if total += len(b); total > MaxBatchBytes {
			return nil, fmt.Errorf("ledger: append: %w: bundles of more than %d bytes at once", ErrTooMany, MaxBatchBytes)
		}
		x, err := l.opt.Index(b)
		if err != nil {
			return nil, fmt.Errorf("ledger: append: read the bundle%s: %w", which, err)
		}
		if err := x.check(); err != nil {
			return nil, fmt.Errorf("ledger: append: what the bundle%s says: %w", which, err)
		}
		batch[i] = incoming{b, godigest.FromBytes(b), x}
	}
	return batch, nil
}

// add makes the entries durable, or finds those that are there.
func (l *Log) add(ctx context.Context, batch []incoming) ([]Entry, error) {
	for range maxConflicts {
		size, err := l.Size(ctx)
		if err != nil {
			return nil, err
		}
		entries, fresh, hashes, err := l.place(ctx, size, batch)
		if err != nil || len(fresh) == 0 {
			return entries, err
		}
		err = l.store.Append(ctx, size, fresh, hashes)
		if errors.Is(err, ErrConflict) || errors.Is(err, ErrDuplicate) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("ledger: append at %d: %w; append the same again", size, err)
		}
		return entries, nil
	}
	return nil, fmt.Errorf("ledger: append: %w, %d times in a row; append the same again when there are fewer writers", ErrConflict, maxConflicts)
}

// place finds the entries that are there, and makes those that are not, from
// index size on, with the nodes that they complete.
func (l *Log) place(ctx context.Context, size int64, batch []incoming) ([]Entry, []NewEntry, []tlog.Hash, error) {
	appended := l.opt.Now().UTC().Format(timeLayout)
	entries := make([]Entry, len(batch))
	var fresh []NewEntry
	nodes := growing{hashReader: hashReader{ctx, l.store}, first: tlog.StoredHashIndex(0, size)}
	placed := make(map[godigest.Digest]Entry, len(batch))
	for i, in := range batch {
		if e, ok := placed[in.digest]; ok {
			e.Existed = true
			entries[i] = e
			continue
		}
		e, err := l.existing(ctx, in.digest)
		switch {
		case err == nil:
		case !errors.Is(err, ErrNotFound):
			return nil, nil, nil, err
		default:
			at := size + int64(len(fresh))
			if at >= MaxEntries {
				return nil, nil, nil, fmt.Errorf("ledger: append: the log is full with %d entries", size)
			}
			leaf := Leaf{Type: LeafType, PAE: in.index.PAE, Bundle: in.digest, PredicateType: in.index.PredicateType, Appended: appended}
			canonical, err := leaf.Canonical()
			if err != nil {
				return nil, nil, nil, err
			}
			if err := nodes.push(at, canonical); err != nil {
				return nil, nil, nil, fmt.Errorf("ledger: append at %d: nodes: %w", at, err)
			}
			e = Entry{Index: LeafIndex(at), Leaf: leaf, Bundle: in.bundle, Subjects: in.index.Subjects, Dependencies: in.index.Dependencies}
			r := Record{Leaf: canonical, Bundle: in.digest, Subjects: e.Subjects, Dependencies: e.Dependencies}
			fresh = append(fresh, NewEntry{Record: r, Bundle: in.bundle})
		}
		entries[i], placed[in.digest] = e, e
	}
	return entries, fresh, nodes.added, nil
}

// growing reads the nodes of a tree whose last ones are not stored yet.
type growing struct {
	hashReader
	first int64 // storage index of the first node that is not stored
	added []tlog.Hash
}

func (g *growing) push(n int64, leaf []byte) error {
	hashes, err := tlog.StoredHashes(n, leaf, g)
	g.added = append(g.added, hashes...)
	return err
}

func (g *growing) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	var stored []int64
	for i, x := range indexes {
		if x < g.first {
			stored = append(stored, x)
		} else {
			out[i] = g.added[x-g.first]
		}
	}
	read, err := g.hashReader.ReadHashes(stored)
	if err != nil {
		return nil, err
	}
	for i, x := range indexes {
		if x < g.first {
			out[i], read = read[0], read[1:]
		}
	}
	return out, nil
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
