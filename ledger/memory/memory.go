// Package memory keeps a log and its checkpoints in memory, for tests and for
// looking at a log that lies in an evidence package. Nothing survives the
// process.
package memory

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	godigest "github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger"
)

// Store is a [ledger.Store].
type Store struct {
	mu       sync.RWMutex
	records  []ledger.Record
	bundles  [][]byte
	hashes   []tlog.Hash
	byBundle map[godigest.Digest]ledger.LeafIndex
	named    [2]map[godigest.Digest][]ledger.LeafIndex
}

// NewStore returns an empty store.
func NewStore() *Store {
	s := &Store{byBundle: map[godigest.Digest]ledger.LeafIndex{}}
	for role := range s.named {
		s.named[role] = map[godigest.Digest][]ledger.LeafIndex{}
	}
	return s
}

func (s *Store) Size(context.Context) (int64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return int64(len(s.records)), nil
}

func (s *Store) Append(ctx context.Context, size int64, entries []ledger.NewEntry, hashes []tlog.Hash) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memory: append at %d: %w", size, err)
	}
	if size != int64(len(s.records)) {
		return fmt.Errorf("memory: append at %d to a log of %d: %w", size, len(s.records), ledger.ErrConflict)
	}
	batch := map[godigest.Digest]bool{}
	for _, e := range entries {
		if err := checkDigests(e.Record); err != nil {
			return fmt.Errorf("memory: append at %d: %w", size, err)
		}
		if _, ok := s.byBundle[e.Record.Bundle]; ok || batch[e.Record.Bundle] {
			return fmt.Errorf("memory: append %s: %w", e.Record.Bundle, ledger.ErrDuplicate)
		}
		batch[e.Record.Bundle] = true
	}
	for _, e := range entries {
		s.add(e)
	}
	s.hashes = append(s.hashes, hashes...)
	return nil
}

// checkDigests refuses what the columns of a database have no room for.
func checkDigests(r ledger.Record) error {
	for _, d := range slices.Concat([]ledger.Ref{{Digest: r.Bundle}}, r.Subjects, r.Dependencies) {
		if d.Digest.Validate() != nil || d.Digest.Algorithm() != godigest.SHA256 {
			return fmt.Errorf("digest %.100q, want sha256", string(d.Digest))
		}
	}
	return nil
}

func (s *Store) add(e ledger.NewEntry) {
	index := ledger.LeafIndex(len(s.records))
	s.records = append(s.records, clone(e.Record))
	s.bundles = append(s.bundles, bytes.Clone(e.Bundle))
	s.byBundle[e.Record.Bundle] = index
	for role, refs := range [2][]ledger.Ref{e.Record.Subjects, e.Record.Dependencies} {
		for _, ref := range refs {
			list := s.named[role][ref.Digest]
			if len(list) == 0 || list[len(list)-1] != index {
				s.named[role][ref.Digest] = append(list, index)
			}
		}
	}
}

func clone(r ledger.Record) ledger.Record {
	r.Leaf = bytes.Clone(r.Leaf)
	r.Subjects, r.Dependencies = slices.Clone(r.Subjects), slices.Clone(r.Dependencies)
	return r
}

func (s *Store) Record(_ context.Context, index ledger.LeafIndex) (ledger.Record, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if index < 0 || int(index) >= len(s.records) {
		return ledger.Record{}, fmt.Errorf("memory: record %d of %d: %w", index, len(s.records), ledger.ErrNotFound)
	}
	return clone(s.records[index]), nil
}

func (s *Store) Bundle(_ context.Context, index ledger.LeafIndex) ([]byte, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if index < 0 || int(index) >= len(s.bundles) {
		return nil, fmt.Errorf("memory: bundle %d of %d: %w", index, len(s.bundles), ledger.ErrNotFound)
	}
	return bytes.Clone(s.bundles[index]), nil
}

func (s *Store) ByBundle(_ context.Context, bundle godigest.Digest) (ledger.LeafIndex, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	index, ok := s.byBundle[bundle]
	if !ok {
		return 0, fmt.Errorf("memory: bundle %s: %w", bundle, ledger.ErrNotFound)
	}
	return index, nil
}

func (s *Store) ByArtifact(_ context.Context, artifact godigest.Digest, role ledger.Role, from ledger.LeafIndex, limit int) ([]ledger.LeafIndex, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := s.named[role][artifact]
	first, _ := slices.BinarySearch(list, from)
	list = list[first:]
	return slices.Clone(list[:min(len(list), limit)]), nil
}

func (s *Store) Hashes(_ context.Context, indexes []int64) ([]tlog.Hash, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		if x < 0 || x >= int64(len(s.hashes)) {
			return nil, fmt.Errorf("memory: node %d of %d: %w", x, len(s.hashes), ledger.ErrNotFound)
		}
		out[i] = s.hashes[x]
	}
	return out, nil
}

// Check finds nothing: memory has no structures of its own to be damaged.
func (s *Store) Check(context.Context) ([]ledger.Finding, error) { return nil, nil }

func (s *Store) Close() error { return nil }
