package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"

	godigest "github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/tlog"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/weighmaster/weighmaster/ledger"
)

// Append adds entries in one transaction that holds the write lock from its
// start.
func (s *Store) Append(ctx context.Context, size int64, entries []ledger.NewEntry, hashes []tlog.Hash) error {
	s.appending.Lock()
	defer s.appending.Unlock()
	var err error
	for range maxConnections + 1 {
		if err = s.appendOnce(ctx, size, entries, hashes); !isReadOnly(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("ledger/sqlite: %s: append at %d: %w", s.path, size, err)
	}
	return nil
}

// appendOnce appends on one connection and drops the connection if it fails:
// where SQLite could not open the file for writing when the connection was
// made, be it for a moment, it opened it for reading and never tries again.
func (s *Store) appendOnce(ctx context.Context, size int64, entries []ledger.NewEntry, hashes []tlog.Hash) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	err = appendOn(ctx, conn, size, entries, hashes)
	if err != nil && !errors.Is(err, ledger.ErrConflict) && !errors.Is(err, ledger.ErrDuplicate) {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	return err
}

func appendOn(ctx context.Context, conn *sql.Conn, size int64, entries []ledger.NewEntry, hashes []tlog.Hash) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("wait for the write lock: %w", err)
	}
	defer tx.Rollback()
	t := transaction{tx, map[string]*sql.Stmt{}}
	if err := t.append(ctx, size, entries, hashes); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

func isReadOnly(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_READONLY
}

// transaction prepares each statement once; its end closes them.
type transaction struct {
	tx   *sql.Tx
	made map[string]*sql.Stmt
}

func (t transaction) prepare(ctx context.Context, text string) (*sql.Stmt, error) {
	if made, ok := t.made[text]; ok {
		return made, nil
	}
	made, err := t.tx.PrepareContext(ctx, text)
	if err == nil {
		t.made[text] = made
	}
	return made, err
}

func (t transaction) exec(ctx context.Context, text string, args ...any) error {
	made, err := t.prepare(ctx, text)
	if err != nil {
		return err
	}
	_, err = made.ExecContext(ctx, args...)
	return err
}

func (t transaction) append(ctx context.Context, size int64, entries []ledger.NewEntry, hashes []tlog.Hash) error {
	var head int64
	if err := t.tx.QueryRowContext(ctx, sizeQuery).Scan(&head); err != nil {
		return err
	}
	if head != size {
		return fmt.Errorf("the log has %d entries: %w", head, ledger.ErrConflict)
	}
	for i, e := range entries {
		if err := t.entry(ctx, size+int64(i), e); err != nil {
			return err
		}
	}
	first := tlog.StoredHashIndex(0, size)
	for i, h := range hashes {
		if err := t.exec(ctx, insertNode, first+int64(i), h[:]); err != nil {
			return err
		}
	}
	return nil
}

// The statements that write.
const (
	insertEntry    = "INSERT INTO entries (idx, leaf, bundle_sha256) VALUES (?, ?, ?)"
	insertBundle   = "INSERT INTO bundles (idx, bundle) VALUES (?, ?)"
	insertArtifact = "INSERT INTO artifacts (idx, role, pos, sha256, name) VALUES (?, ?, ?, ?, ?)"
	insertNode     = "INSERT INTO nodes (pos, hash) VALUES (?, ?)"
)

func (t transaction) entry(ctx context.Context, index int64, e ledger.NewEntry) error {
	digest, err := raw(e.Record.Bundle)
	if err != nil {
		return err
	}
	look, err := t.prepare(ctx, thereQuery)
	if err != nil {
		return err
	}
	var there bool
	if err := look.QueryRowContext(ctx, digest).Scan(&there); err != nil {
		return err
	}
	if there {
		return fmt.Errorf("bundle %s: %w", e.Record.Bundle, ledger.ErrDuplicate)
	}
	if err := t.exec(ctx, insertEntry, index, e.Record.Leaf, digest); err != nil {
		return err
	}
	if err := t.exec(ctx, insertBundle, index, e.Bundle); err != nil {
		return err
	}
	for role, refs := range [2][]ledger.Ref{e.Record.Subjects, e.Record.Dependencies} {
		for pos, ref := range refs {
			digest, err := raw(ref.Digest)
			if err != nil {
				return err
			}
			if err := t.exec(ctx, insertArtifact, index, role, pos, digest, ref.Name); err != nil {
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
