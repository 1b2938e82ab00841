package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	godigest "github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger"
)

func TestOpenNeverCreates(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing.db")
	if _, err := Open(t.Context(), missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open a missing file: %v, want fs.ErrNotExist", err)
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("the file was created")
	}
	for name, text := range map[string]string{"empty": "", "text": strings.Repeat("not a database ", 100)} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), path); err == nil {
			t.Errorf("opened %s", name)
		}
	}
	if _, err := Open(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "not a file") {
		t.Errorf("open a folder: %v", err)
	}
}

func TestCreateRefusesWhatExists(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	if err := os.WriteFile(path, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(t.Context(), path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("create: %v, want fs.ErrExist", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "precious" {
		t.Errorf("the file became %q, %v", text, err)
	}
}

func TestOtherMarksRefused(t *testing.T) {
	for pragma, want := range map[string]string{"user_version = 2": "schema version 2, want 1", "application_id = 7": "this database is not a ledger"} {
		path := filepath.Join(t.TempDir(), "ledger.db")
		s, err := Create(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.db.Exec("PRAGMA " + pragma); err != nil {
			t.Fatal(err)
		}
		s.Close()
		if _, err := Open(t.Context(), path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", pragma, err, want)
		}
	}
}

func TestDurabilitySettings(t *testing.T) {
	s, err := Create(t.Context(), filepath.Join(t.TempDir(), "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "recursive_triggers": "1"} {
		if got, err := s.strings(t.Context(), "PRAGMA "+pragma); err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%s is %v, %v; want %s", pragma, got, err, want)
		}
	}
}

// TestFullDisk lets the database reach its largest size in the middle of an
// append. The append must not have happened, and must succeed when there is
// room again.
func TestFullDisk(t *testing.T) {
	s, err := Create(t.Context(), filepath.Join(t.TempDir(), "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.db.SetMaxOpenConns(1) // max_page_count holds for one connection
	limit := func(pages string) {
		t.Helper()
		if _, err := s.strings(t.Context(), "PRAGMA max_page_count = "+pages); err != nil {
			t.Fatal(err)
		}
	}
	limit("60")
	bundle := make([]byte, 40_000)
	size, failed := int64(0), 0
	for i := range byte(12) {
		bundle[0] = i
		r := ledger.Record{Leaf: []byte{i}, Bundle: godigest.FromBytes(bundle), Subjects: []ledger.Ref{{Name: "a", Digest: godigest.FromString("a")}}}
		add := func() error {
			nodes, err := tlog.StoredHashes(size, r.Leaf, tlog.HashReaderFunc(func(x []int64) ([]tlog.Hash, error) {
				return s.Hashes(context.Background(), x)
			}))
			if err != nil {
				return err
			}
			return s.Append(t.Context(), size, []ledger.NewEntry{{Record: r, Bundle: bundle}}, nodes)
		}
		if err := add(); err != nil {
			failed++
			if !strings.Contains(err.Error(), "full") {
				t.Fatalf("append: %v, want: full", err)
			}
			if got, err := s.Size(t.Context()); err != nil || got != size {
				t.Fatalf("size %d, %v; want %d", got, err, size)
			}
			if findings, err := s.Check(t.Context()); err != nil || len(findings) != 0 {
				t.Fatalf("check: %v, %v", findings, err)
			}
			limit("100000")
			if err := add(); err != nil {
				t.Fatalf("append when there is room again: %v", err)
			}
			limit("0")
		}
		size++
	}
	if failed == 0 {
		t.Error("the disk was never full")
	}
}
