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

// Append adds entries in one transaction that holds the write lock from its
// start.
func (s *Store) Append(ctx context.Context, size int64, entries []ledger.NewEntry, hashes []tlog.Hash) error {
	s.appending.Lock()
	defer s.appending.Unlock()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("ledger/sqlite: %s: wait for the write lock: %w", s.path, err)
	}
	defer tx.Rollback()
	if err := appendIn(ctx, tx, size, entries, hashes); err != nil {
		return fmt.Errorf("ledger/sqlite: %s: append at %d: %w", s.path, size, err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("ledger/sqlite: %s: append at %d: commit: %w", s.path, size, err)
	}
	return nil
}

func appendIn(ctx context.Context, tx *sql.Tx, size int64, entries []ledger.NewEntry, hashes []tlog.Hash) error {
	var head int64
	if err := tx.QueryRowContext(ctx, sizeQuery).Scan(&head); err != nil {
		return err
	}
	if head != size {
		return fmt.Errorf("the log has %d entries: %w", head, ledger.ErrConflict)
	}
	in, err := prepare(ctx, tx)
	if err != nil {
		return err
	}
	defer in.close()
	for i, e := range entries {
		if err := in.entry(ctx, size+int64(i), e); err != nil {
			return err
		}
	}
	first := tlog.StoredHashIndex(0, size)
	for i, h := range hashes {
		if _, err := in.node.ExecContext(ctx, first+int64(i), h[:]); err != nil {
			return err
		}
	}
	return nil
}

// inserts are the statements of one append.
type inserts struct{ there, record, bundle, artifact, node *sql.Stmt }

func (in *inserts) all() []struct {
	statement **sql.Stmt
	text      string
} {
	return []struct {
		statement **sql.Stmt
		text      string
	}{
		{&in.there, thereQuery},
		{&in.record, "INSERT INTO entries (idx, leaf, bundle_sha256) VALUES (?, ?, ?)"},
		{&in.bundle, "INSERT INTO bundles (idx, bundle) VALUES (?, ?)"},
		{&in.artifact, "INSERT INTO artifacts (idx, role, pos, sha256, name) VALUES (?, ?, ?, ?, ?)"},
		{&in.node, "INSERT INTO nodes (pos, hash) VALUES (?, ?)"},
	}
}

func prepare(ctx context.Context, tx *sql.Tx) (*inserts, error) {
	in := &inserts{}
	for _, p := range in.all() {
		statement, err := tx.PrepareContext(ctx, p.text)
		if err != nil {
			in.close()
			return nil, err
		}
		*p.statement = statement
	}
	return in, nil
}

func (in *inserts) close() {
	for _, p := range in.all() {
		if *p.statement != nil {
			(*p.statement).Close()
		}
	}
}

func (in *inserts) entry(ctx context.Context, index int64, e ledger.NewEntry) error {
	digest, err := raw(e.Record.Bundle)
	if err != nil {
		return err
	}
	var there bool
	if err := in.there.QueryRowContext(ctx, digest).Scan(&there); err != nil {
		return err
	}
	if there {
		return fmt.Errorf("bundle %s: %w", e.Record.Bundle, ledger.ErrDuplicate)
	}
	if _, err := in.record.ExecContext(ctx, index, e.Record.Leaf, digest); err != nil {
		return err
	}
	if _, err := in.bundle.ExecContext(ctx, index, e.Bundle); err != nil {
		return err
	}
	for role, refs := range [2][]ledger.Ref{e.Record.Subjects, e.Record.Dependencies} {
		for pos, ref := range refs {
			digest, err := raw(ref.Digest)
			if err != nil {
				return err
			}
			if _, err := in.artifact.ExecContext(ctx, index, role, pos, digest, ref.Name); err != nil {
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
