package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/checkpoints"
	"github.com/weighmaster/weighmaster/ledger/faulttest"
	"github.com/weighmaster/weighmaster/ledger/sqlite"
)

// look opens and verifies the log in a folder as a reader does. harmless says
// that everything verifies and reads as it was appended.
func look(t *testing.T, db, dir string, want []ledger.Entry) (harmless bool, err error) {
	t.Helper()
	store, err := sqlite.Open(context.Background(), db)
	if err != nil {
		return false, nil
	}
	defer store.Close()
	kept, err := checkpoints.Open(dir)
	if err != nil {
		return false, nil
	}
	s := &site{store: store, checkpoints: kept}
	opt := s.options(t)
	opt.Signer = nil
	v, err := ledger.Verify(context.Background(), store, opt)
	if err != nil || !v.OK() {
		return false, nil
	}
	log, err := ledger.Open(context.Background(), store, opt)
	if err != nil {
		return false, fmt.Errorf("verified, and then open: %w", err)
	}
	n := 0
	for e, err := range log.Entries(context.Background()) {
		if err != nil {
			return false, fmt.Errorf("verified, and then read: %w", err)
		}
		if n >= len(want) || !bytes.Equal(e.Bundle, want[n].Bundle) || e.Leaf != want[n].Leaf {
			return false, fmt.Errorf("verified, and entry %d is another", n)
		}
		n++
	}
	if n != len(want) {
		return false, fmt.Errorf("verified, with %d entries of %d", n, len(want))
	}
	return true, nil
}

func verifyOnly(t *testing.T, db, dir string) (ledger.Verification, error) {
	t.Helper()
	s := reopenAt(t, db, dir)
	defer s.store.Close()
	return ledger.Verify(context.Background(), s.store, s.options(t))
}

// TestDatabaseBytesFlipped flips one bit in every so many bytes of the database
// file. Either the flip is told, or it lies where nothing is kept and every
// entry reads as before.
func TestDatabaseBytesFlipped(t *testing.T) {
	s := onDisk(t)
	want := chain(t, s.create(t), 12)
	s.store.Close()
	whole, err := os.ReadFile(s.db)
	if err != nil {
		t.Fatal(err)
	}
	tmp := faulttest.TempDir(t)
	db := filepath.Join(tmp, "ledger.db")
	flips, told := 0, 0
	for at := 0; at < len(whole); at += 83 * stride {
		body := bytes.Clone(whole)
		body[at] ^= 1 << (at % 8)
		if err := errors.Join(os.WriteFile(db, body, 0o644), remove(db+"-wal"), remove(db+"-shm")); err != nil {
			t.Fatal(err)
		}
		harmless, err := look(t, db, s.dir, want)
		if err != nil {
			t.Errorf("byte %d: %v", at, err)
		}
		if !harmless {
			told++
		}
		flips++
	}
	if told < flips/8 {
		t.Errorf("%d of %d flips told, want more", told, flips)
	}
	fmt.Printf("ledger.db with a flipped bit: %d flips: %d told, %d where nothing is kept\n", flips, told, flips-told)
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// TestDatabaseCut cuts the database file, and its write-ahead log, at every
// page and in the middle of pages.
func TestDatabaseCut(t *testing.T) {
	s := onDisk(t)
	want := chain(t, s.create(t), 12)
	// The database is open, so that the write-ahead log is not yet moved.
	main, err := os.ReadFile(s.db)
	if err != nil {
		t.Fatal(err)
	}
	wal, err := os.ReadFile(s.db + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	const page, frame, header = 4096, 4096 + 24, 32
	if len(wal) < 20*frame {
		t.Fatalf("a write-ahead log of %d bytes, want many frames", len(wal))
	}
	tmp := faulttest.TempDir(t)
	db := filepath.Join(tmp, "ledger.db")
	cuts, told := 0, 0
	try := func(main, wal []byte) {
		t.Helper()
		if err := errors.Join(remove(db+"-shm"), os.WriteFile(db, main, 0o644), os.WriteFile(db+"-wal", wal, 0o644)); err != nil {
			t.Fatal(err)
		}
		harmless, err := look(t, db, s.dir, want)
		if err != nil {
			t.Errorf("database of %d bytes, log of %d: %v", len(main), len(wal), err)
		}
		if !harmless {
			told++
		}
		cuts++
	}
	try(main, wal)
	if told != 0 {
		t.Fatal("the copy itself does not verify")
	}
	for n := header; n < len(wal); n += frame * (1 + stride/8) {
		try(main, wal[:n])
		try(main, wal[:min(n+frame/2, len(wal))])
	}
	for n := 0; n < len(main); n += page / 2 {
		try(main[:n], wal)
	}
	if told < cuts*3/4 {
		t.Errorf("%d of %d cuts told, want nearly all", told, cuts)
	}
	fmt.Printf("ledger.db and its write-ahead log cut: %d cuts: %d told, %d that took nothing\n", cuts-1, told, cuts-1-told)
}

// TestCheckpointBytesFlipped flips every bit of every byte of checkpoints'
// files. Each flip must be told, also one that spells the same signature
// otherwise.
func TestCheckpointBytesFlipped(t *testing.T) {
	s := onDisk(t)
	chain(t, s.create(t), 6)
	s.store.Close()
	d, err := checkpoints.Open(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	flips, told := 0, 0
	for _, path := range []string{d.File(3), d.File(6), filepath.Join(s.dir, "latest")} {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := range whole {
			for bit := range 8 {
				// All bits of the last characters, where base64 has room to play.
				if (at*8+bit)%(5*stride+2) != 0 && at < len(whole)-5 {
					continue
				}
				body := bytes.Clone(whole)
				body[at] ^= 1 << bit
				if err := errors.Join(remove(path), os.WriteFile(path, body, 0o644)); err != nil {
					t.Fatal(err)
				}
				flips++
				if v, err := verifyOnly(t, s.db, s.dir); err != nil || !v.OK() {
					told++
				} else {
					t.Errorf("%s: bit %d of byte %d (%q became %q) was not told", filepath.Base(path), bit, at, whole[at], body[at])
				}
			}
		}
		if err := errors.Join(remove(path), os.WriteFile(path, whole, 0o444)); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Printf("checkpoint files with a flipped bit: %d flips: %d told\n", flips, told)
}
