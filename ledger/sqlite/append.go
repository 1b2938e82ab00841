package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"

	godigest "github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger"
)

// Append adds one entry in one transaction that holds the write lock from its
// start.
func (s *Store) Append(ctx context.Context, size int64, r ledger.Record, bundle []byte, hashes []tlog.Hash) error {
	digest, err := raw(r.Bundle)
	if err != nil {
		return err
	}
	s.appending.Lock()
	defer s.appending.Unlock()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("ledger/sqlite: %s: wait for the write lock: %w", s.path, err)
	}
	defer tx.Rollback()
	if err := appendIn(ctx, tx, size, r, digest, bundle, hashes); err != nil {
		return fmt.Errorf("ledger/sqlite: %s: append at %d: %w", s.path, size, err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("ledger/sqlite: %s: append at %d: commit: %w", s.path, size, err)
	}
	return nil
}

func appendIn(ctx context.Context, tx *sql.Tx, size int64, r ledger.Record, digest, bundle []byte, hashes []tlog.Hash) error {
	var head int64
	if err := tx.QueryRowContext(ctx, sizeQuery).Scan(&head); err != nil {
		return err
	}
	if head != size {
		return fmt.Errorf("the log has %d entries: %w", head, ledger.ErrConflict)
	}
	var there bool
	if err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM entries WHERE bundle_sha256 = ?)", digest).Scan(&there); err != nil {
		return err
	}
	if there {
		return fmt.Errorf("bundle %s: %w", r.Bundle, ledger.ErrDuplicate)
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO entries (idx, leaf, bundle_sha256) VALUES (?, ?, ?)", size, r.Leaf, digest); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO bundles (idx, bundle) VALUES (?, ?)", size, bundle); err != nil {
		return err
	}
	if err := insertArtifacts(ctx, tx, size, r); err != nil {
		return err
	}
	first := tlog.StoredHashIndex(0, size)
	for i, h := range hashes {
		if _, err := tx.ExecContext(ctx, "INSERT INTO nodes (pos, hash) VALUES (?, ?)", first+int64(i), h[:]); err != nil {
			return err
		}
	}
	return nil
}

func insertArtifacts(ctx context.Context, tx *sql.Tx, index int64, r ledger.Record) error {
	if len(r.Subjects)+len(r.Dependencies) == 0 {
		return nil
	}
	insert, err := tx.PrepareContext(ctx, "INSERT INTO artifacts (idx, role, pos, sha256, name) VALUES (?, ?, ?, ?, ?)")
	if err != nil {
		return err
	}
	defer insert.Close()
	for role, refs := range [2][]ledger.Ref{r.Subjects, r.Dependencies} {
		for pos, ref := range refs {
			digest, err := raw(ref.Digest)
			if err != nil {
				return err
			}
			if _, err := insert.ExecContext(ctx, index, role, pos, digest, ref.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// raw returns a digest's 32 bytes.
func raw(d godigest.Digest) ([]byte, error) {
	if err := d.Validate(); err != nil || d.Algorithm() != godigest.SHA256 {
		return nil, fmt.Errorf("ledger/sqlite: digest %.100q, want sha256", string(d))
	}
	return hex.DecodeString(d.Encoded())
}

func digestOf(raw []byte) godigest.Digest {
	return godigest.NewDigestFromBytes(godigest.SHA256, raw)
}
