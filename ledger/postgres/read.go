package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"
	godigest "github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger"
)

const lastQuery = "SELECT max(idx) FROM @.entries"

// sizeOf turns the last index, nil without entries, into a size. An absurd one
// stays absurd.
func sizeOf(last *int64) int64 {
	switch {
	case last == nil:
		return 0
	case *last == math.MaxInt64:
		return math.MaxInt64
	}
	return *last + 1
}

// Size returns the number of entries.
func (s *Store) Size(ctx context.Context) (int64, error) {
	var last *int64
	if err := s.pool.QueryRow(ctx, s.sql(lastQuery)).Scan(&last); err != nil {
		return 0, s.fail("size", err)
	}
	return sizeOf(last), nil
}

// Record returns one entry without its bundle.
func (s *Store) Record(ctx context.Context, index ledger.LeafIndex) (ledger.Record, error) {
	var r ledger.Record
	var b pgx.Batch
	b.Queue(s.sql("SELECT leaf, bundle_sha256 FROM @.entries WHERE idx = $1"), int64(index)).QueryRow(func(row pgx.Row) error {
		var digest []byte
		err := row.Scan(&r.Leaf, &digest)
		r.Bundle = digestOf(digest)
		return found(err)
	})
	// One more than can have been appended: the rest is not read.
	b.Queue(s.sql("SELECT role, sha256, name FROM @.artifacts WHERE idx = $1 ORDER BY role, pos LIMIT $2"), int64(index), 2*ledger.MaxRefs+1).Query(func(rows pgx.Rows) error {
		return scanArtifacts(rows, &r)
	})
	if err := s.pool.SendBatch(ctx, &b).Close(); err != nil {
		return ledger.Record{}, s.fail(fmt.Sprintf("record %d", index), err)
	}
	return r, nil
}

func scanArtifacts(rows pgx.Rows, r *ledger.Record) error {
	for rows.Next() {
		var role int16
		var digest, name []byte
		if err := rows.Scan(&role, &digest, &name); err != nil {
			return err
		}
		list := &r.Subjects
		if ledger.Role(role) == ledger.Dependency {
			list = &r.Dependencies
		}
		if *list = append(*list, ledger.Ref{Name: string(name), Digest: digestOf(digest)}); len(*list) > ledger.MaxRefs {
			return fmt.Errorf("more than %d artifacts: %w", ledger.MaxRefs, ledger.ErrTooMany)
		}
	}
	return rows.Err()
}

// Bundle returns one entry's bundle.
func (s *Store) Bundle(ctx context.Context, index ledger.LeafIndex) ([]byte, error) {
	var bundle []byte
	if err := s.pool.QueryRow(ctx, s.sql("SELECT bundle FROM @.bundles WHERE idx = $1"), int64(index)).Scan(&bundle); err != nil {
		return nil, s.fail(fmt.Sprintf("bundle %d", index), found(err))
	}
	return bundle, nil
}

// ByBundle looks an entry up by its bundle's digest.
func (s *Store) ByBundle(ctx context.Context, bundle godigest.Digest) (ledger.LeafIndex, error) {
	doing := fmt.Sprintf("bundle %.100q", string(bundle))
	digest, err := raw(bundle)
	if err != nil {
		return 0, s.fail(doing, err)
	}
	var index int64
	if err := s.pool.QueryRow(ctx, s.sql("SELECT idx FROM @.entries WHERE bundle_sha256 = $1"), digest).Scan(&index); err != nil {
		return 0, s.fail(doing, found(err))
	}
	return ledger.LeafIndex(index), nil
}

// ByArtifact lists the entries that name an artifact in a role.
func (s *Store) ByArtifact(ctx context.Context, artifact godigest.Digest, role ledger.Role, from ledger.LeafIndex, limit int) ([]ledger.LeafIndex, error) {
	doing := fmt.Sprintf("artifact %.100q", string(artifact))
	digest, err := raw(artifact)
	if err != nil {
		return nil, s.fail(doing, err)
	}
	rows, _ := s.pool.Query(ctx, s.sql("SELECT DISTINCT idx FROM @.artifacts WHERE sha256 = $1 AND role = $2 AND idx >= $3 ORDER BY idx LIMIT $4"),
		digest, int16(role), int64(from), limit)
	list, err := pgx.CollectRows(rows, pgx.RowTo[ledger.LeafIndex])
	if err != nil {
		return nil, s.fail(doing, err)
	}
	return list, nil
}

// Hashes returns tree nodes.
func (s *Store) Hashes(ctx context.Context, indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for first := 0; first < len(indexes); first += statementRows {
		last := min(first+statementRows, len(indexes))
		if err := s.hashes(ctx, indexes[first:last], out[first:last]); err != nil {
			return nil, s.fail("tree nodes", err)
		}
	}
	return out, nil
}

func (s *Store) hashes(ctx context.Context, indexes []int64, out []tlog.Hash) error {
	rows, err := s.pool.Query(ctx, s.sql("SELECT pos, hash FROM @.nodes WHERE pos = ANY ($1)"), indexes)
	if err != nil {
		return err
	}
	defer rows.Close()
	return ledger.CollectNodes(rows, indexes, out)
}

func found(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return ledger.ErrNotFound
	}
	return err
}
