package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	godigest "github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger"
)

// The statements that read.
const (
	sizeQuery       = "SELECT coalesce(max(idx) + 1, 0) FROM entries"
	thereQuery      = "SELECT EXISTS (SELECT 1 FROM entries WHERE bundle_sha256 = ?)"
	recordQuery     = "SELECT leaf, bundle_sha256 FROM entries WHERE idx = ?"
	artifactsQuery  = "SELECT role, pos, sha256, name FROM artifacts WHERE idx = ? ORDER BY role, pos"
	bundleQuery     = "SELECT bundle FROM bundles WHERE idx = ?"
	byBundleQuery   = "SELECT idx FROM entries WHERE bundle_sha256 = ?"
	byArtifactQuery = "SELECT DISTINCT idx FROM artifacts WHERE sha256 = ? AND role = ? AND idx >= ? ORDER BY idx LIMIT ?"
)

// nodesQuery asks for a number of nodes that is a power of 2.
func nodesQuery(count int) string {
	return "SELECT pos, hash FROM nodes WHERE pos IN (?" + strings.Repeat(", ?", count-1) + ")"
}

// Size returns the number of entries.
func (s *Store) Size(ctx context.Context) (int64, error) {
	var size int64
	if err := s.do.row(ctx, sizeQuery, nil, &size); err != nil {
		return 0, fmt.Errorf("ledger/sqlite: %s: size: %w", s.path, err)
	}
	return size, nil
}

// Record returns one entry without its bundle.
func (s *Store) Record(ctx context.Context, index ledger.LeafIndex) (ledger.Record, error) {
	fail := func(err error) (ledger.Record, error) {
		if errors.Is(err, sql.ErrNoRows) {
			err = ledger.ErrNotFound
		}
		return ledger.Record{}, fmt.Errorf("ledger/sqlite: %s: record %d: %w", s.path, index, err)
	}
	var r ledger.Record
	var digest []byte
	err := s.do.row(ctx, recordQuery, int64(index), &r.Leaf, &digest)
	if err != nil {
		return fail(err)
	}
	r.Bundle = digestOf(digest)
	rows, err := s.do.query(ctx, artifactsQuery, int64(index))
	if err != nil {
		return fail(err)
	}
	defer rows.Close()
	for rows.Next() {
		var role, pos int
		var ref ledger.Ref
		if err := rows.Scan(&role, &pos, &digest, &ref.Name); err != nil {
			return fail(err)
		}
		ref.Digest = digestOf(digest)
		list := &r.Subjects
		if role == int(ledger.Dependency) {
			list = &r.Dependencies
		}
		if *list = append(*list, ref); len(*list) > ledger.MaxRefs {
			return fail(fmt.Errorf("more than %d artifacts: %w", ledger.MaxRefs, ledger.ErrTooMany))
		}
	}
	if err := rows.Err(); err != nil {
		return fail(err)
	}
	return r, nil
}

// Bundle returns one entry's bundle.
func (s *Store) Bundle(ctx context.Context, index ledger.LeafIndex) ([]byte, error) {
	var bundle []byte
	err := s.do.row(ctx, bundleQuery, int64(index), &bundle)
	if errors.Is(err, sql.ErrNoRows) {
		err = ledger.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("ledger/sqlite: %s: bundle %d: %w", s.path, index, err)
	}
	return bundle, nil
}

// ByBundle looks an entry up by its bundle's digest.
func (s *Store) ByBundle(ctx context.Context, bundle godigest.Digest) (ledger.LeafIndex, error) {
	digest, err := raw(bundle)
	if err != nil {
		return 0, err
	}
	var index int64
	err = s.do.row(ctx, byBundleQuery, digest, &index)
	if errors.Is(err, sql.ErrNoRows) {
		err = ledger.ErrNotFound
	}
	if err != nil {
		return 0, fmt.Errorf("ledger/sqlite: %s: bundle %s: %w", s.path, bundle, err)
	}
	return ledger.LeafIndex(index), nil
}

// ByArtifact lists the entries that name an artifact in a role.
func (s *Store) ByArtifact(ctx context.Context, artifact godigest.Digest, role ledger.Role, from ledger.LeafIndex, limit int) ([]ledger.LeafIndex, error) {
	digest, err := raw(artifact)
	if err != nil {
		return nil, err
	}
	rows, err := s.do.query(ctx, byArtifactQuery, digest, int(role), int64(from), limit)
	if err != nil {
		return nil, fmt.Errorf("ledger/sqlite: %s: artifact %s: %w", s.path, artifact, err)
	}
	defer rows.Close()
	var list []ledger.LeafIndex
	for rows.Next() {
		var index int64
		if err := rows.Scan(&index); err != nil {
			return nil, fmt.Errorf("ledger/sqlite: %s: artifact %s: %w", s.path, artifact, err)
		}
		list = append(list, ledger.LeafIndex(index))
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("ledger/sqlite: %s: artifact %s: %w", s.path, artifact, err)
	}
	return list, nil
}

// Hashes returns tree nodes; a tree needs at most 64 levels of them at a time.
func (s *Store) Hashes(ctx context.Context, indexes []int64) ([]tlog.Hash, error) {
	const batch = 64
	out := make([]tlog.Hash, len(indexes))
	for first := 0; first < len(indexes); first += batch {
		last := min(first+batch, len(indexes))
		if err := s.hashes(ctx, indexes[first:last], out[first:last]); err != nil {
			return nil, fmt.Errorf("ledger/sqlite: %s: tree nodes: %w", s.path, err)
		}
	}
	return out, nil
}

func (s *Store) hashes(ctx context.Context, indexes []int64, out []tlog.Hash) error {
	args := make([]any, len(indexes))
	for i, x := range indexes {
		args[i] = x
	}
	count := 1
	for count < len(args) {
		count *= 2
	}
	for len(args) < count {
		args = append(args, args[0])
	}
	rows, err := s.do.query(ctx, nodesQuery(count), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	return ledger.CollectNodes(rows, indexes, out)
}
