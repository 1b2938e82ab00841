// Package sqlite keeps a log in one SQLite database file (modernc.org/sqlite).
//
// The file runs in WAL mode with synchronous=FULL: a transaction that was
// committed is on the disk. Writers of several processes wait for one another
// at BEGIN IMMEDIATE and read the head again inside the transaction. The
// folder must be on a local file system; SQLite's locks do not hold on network
// shares.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/weighmaster/weighmaster/ledger/internal/durable"
)

const maxConnections = 8

// Store is a [ledger.Store] in one file.
type Store struct {
	db   *sql.DB
	path string
	do   statements

	// appending makes the writers of this process wait for one another in
	// order; SQLite's busy handler sleeps and polls.
	appending sync.Mutex
}

// Create makes a new database. A file that exists is refused (fs.ErrExist) and
// not touched.
func Create(ctx context.Context, path string) (*Store, error) {
	err := durable.Touch(path, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("ledger/sqlite: create %s: %w; open it, or choose another path", path, fs.ErrExist)
	}
	if err != nil {
		return nil, fmt.Errorf("ledger/sqlite: create: %w", err)
	}
	s, err := connect(path)
	if err != nil {
		return nil, err
	}
	if err := s.create(ctx); err != nil {
		s.db.Close()
		return nil, fmt.Errorf("ledger/sqlite: create %s: %w", path, err)
	}
	if err := durable.SyncDir(filepath.Dir(path)); err != nil {
		s.db.Close()
		return nil, fmt.Errorf("ledger/sqlite: create %s: %w", path, err)
	}
	return s, nil
}

func (s *Store) create(ctx context.Context) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, statement := range schema {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	marks := fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, version)
	if _, err := tx.ExecContext(ctx, marks); err != nil {
		return err
	}
	return tx.Commit()
}

// Open opens a database that [Create] made. It never creates: a path where no
// file is, an empty file, a file of another program or of a newer schema are
// errors.
func Open(ctx context.Context, path string) (*Store, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("ledger/sqlite: open: %w; opening never creates a log, check the path or run init", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("ledger/sqlite: open %s: not a file", path)
	}
	s, err := connect(path)
	if err != nil {
		return nil, err
	}
	if err := s.checkMarks(ctx); err != nil {
		s.db.Close()
		return nil, fmt.Errorf("ledger/sqlite: open %s: %w", path, err)
	}
	return s, nil
}

func (s *Store) checkMarks(ctx context.Context) error {
	var id, v int64
	if err := s.db.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
		return err
	}
	if id != applicationID {
		return fmt.Errorf("application id %#x, want %#x: this database is not a ledger, or its creation was interrupted", id, applicationID)
	}
	if err := s.db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&v); err != nil {
		return err
	}
	if v != version {
		return fmt.Errorf("schema version %d, want %d: another version of the program wrote it", v, version)
	}
	var mode string
	if err := s.db.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("journal mode %q, want \"wal\": the file system may not support it", mode)
	}
	return nil
}

// connect prepares connections to a file that exists.
func connect(path string) (*Store, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("ledger/sqlite: %w", err)
	}
	name := filepath.ToSlash(abs)
	if name[0] != '/' {
		name = "/" + name // a Windows drive
	}
	query := url.Values{
		"mode":    {"rw"},        // never create
		"_txlock": {"immediate"}, // one head lock
		"_pragma": {
			"busy_timeout(60000)",
			"journal_mode(WAL)",
			"synchronous(FULL)",
			"foreign_keys(1)",
			"recursive_triggers(1)", // REPLACE fires the DELETE triggers
			"trusted_schema(0)",
			"cell_size_check(1)",
		},
	}
	dsn := url.URL{Scheme: "file", Path: name, RawQuery: query.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("ledger/sqlite: %w", err)
	}
	db.SetMaxOpenConns(maxConnections)
	db.SetMaxIdleConns(maxConnections)
	return &Store{db: db, path: abs, do: statements{db: db}}, nil
}

// Close closes the database.
func (s *Store) Close() error { return errors.Join(s.do.close(), s.db.Close()) }
