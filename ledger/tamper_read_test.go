package ledger_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	godigest "github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/storetest"
)

// TestReadersNoticeEdits edits entry 3 of 12 so that what is stored of it
// agrees with itself ever better. Whoever reads it must notice, without a full
// verification. What was signed is the only thing that a forger cannot mend.
func TestReadersNoticeEdits(t *testing.T) {
	s := onDisk(t)
	e := chain(t, s.create(t), 12)[3]
	s.store.Close()
	leaf := e.Leaf
	leaf.Appended = "2025-01-02T03:04:05Z"
	later := canonical(t, leaf)

	other := storetest.Bundle("forged", []string{"file 4"}, []string{"file 3", "tool"})
	x, err := storetest.Index(other)
	if err != nil {
		t.Fatal(err)
	}
	leaf = e.Leaf
	leaf.Bundle, leaf.PAE = godigest.FromBytes(other), x.PAE
	forged := canonical(t, leaf)
	replaced := []string{
		fmt.Sprintf("UPDATE entries SET leaf = x'%x', bundle_sha256 = x'%s' WHERE idx = 3", forged, leaf.Bundle.Encoded()),
		fmt.Sprintf("UPDATE bundles SET bundle = x'%x' WHERE idx = 3", other),
	}
	node := func(leaf []byte) string {
		h := tlog.RecordHash(leaf)
		return fmt.Sprintf("UPDATE nodes SET hash = x'%s' WHERE pos = %d", hex.EncodeToString(h[:]), tlog.StoredHashIndex(0, 3))
	}
	for _, c := range []struct {
		name string
		sql  []string
		want string
	}{
		{"time", []string{fmt.Sprintf("UPDATE entries SET leaf = x'%x' WHERE idx = 3", later)}, "as signed"},
		{"time, and the leaf's node", []string{fmt.Sprintf("UPDATE entries SET leaf = x'%x' WHERE idx = 3", later), node(later)}, "as signed"},
		{"bundle", replaced[1:], "a bundle with digest"},
		{"bundle, leaf and row", replaced, "as signed"},
		{"bundle, leaf, row and node", append([]string{node(forged)}, replaced...), "as signed"},
		{"artifact's name", []string{"UPDATE artifacts SET name = 'evil' WHERE idx = 3 AND role = 0"}, `subjects [0] "evil"`},
		{"artifact removed", []string{"DELETE FROM artifacts WHERE idx = 3 AND role = 1 AND pos = 1"}, "dependencies 1 artifacts"},
		{"artifact's digest", []string{"UPDATE artifacts SET sha256 = zeroblob(32) WHERE idx = 3 AND role = 1 AND pos = 1"}, "dependencies [1]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			copied := filepath.Join(t.TempDir(), "ledger.db")
			copyFile(t, s.db, copied)
			forger(t, copied, c.sql...)
			again := reopenAt(t, copied, s.dir)
			opt := again.options(t)
			opt.Signer = nil
			log, err := ledger.Open(t.Context(), again.store, opt)
			if err != nil {
				t.Fatalf("open, which reads the right edge of the tree alone: %v", err)
			}
			var bad *ledger.EntryError
			if _, err := log.Entry(t.Context(), 3); !errors.As(err, &bad) || !strings.Contains(err.Error(), "entry 3") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("entry: %v, want an EntryError at entry 3: %s", err, c.want)
			}
			if found, err := log.Find(t.Context(), storetest.Digest("file 4")); err == nil && len(found) == 2 {
				t.Errorf("find: %d entries without a word", len(found))
			}
			if err := readAll(log); err == nil {
				t.Error("entries: all of them without a word")
			}
			if e, err := log.Entry(t.Context(), 7); err != nil || e.Index != 7 {
				t.Errorf("an entry that nobody touched: %v", err)
			}
		})
	}
}

// TestReadersNoticeNodes takes away, and edits, a node that an entry's inclusion
// in the tree stands on.
func TestReadersNoticeNodes(t *testing.T) {
	for statement, want := range map[string]string{
		"DELETE FROM nodes WHERE pos = 3":                    "every node",
		"UPDATE nodes SET hash = zeroblob(32) WHERE pos = 3": "as signed",
	} {
		s := onDisk(t)
		chain(t, s.create(t), 12)
		s.store.Close()
		forger(t, s.db, statement)
		again := reopen(t, filepath.Dir(s.db))
		log, err := ledger.Open(t.Context(), again.store, again.options(t))
		if err != nil {
			t.Fatal(err)
		}
		var bad *ledger.EntryError
		if _, err := log.Entry(t.Context(), 3); !errors.As(err, &bad) || !strings.Contains(err.Error(), want) || errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("%s: %v, want an EntryError: %s", statement, err, want)
		}
	}
}

func canonical(t *testing.T, l ledger.Leaf) []byte {
	t.Helper()
	text, err := l.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func readAll(log *ledger.Log) error {
	for _, err := range log.Entries(context.Background()) {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestReadersNoticeTheTail cuts and forges below an open log.
func TestReadersNoticeTheTail(t *testing.T) {
	s := onDisk(t)
	log := s.create(t)
	chain(t, log, 6)
	forger(t, s.db, `DELETE FROM artifacts WHERE idx > 3`, `DELETE FROM bundles WHERE idx > 3`, `DELETE FROM entries WHERE idx > 3`, `DELETE FROM nodes WHERE pos >= 7`)
	wantContradiction(t, readAll(log), "signed 6 entries and the store has only 4")
	if _, err := log.Append(t.Context(), step(9)); err == nil || !strings.Contains(err.Error(), "contradicts itself") {
		t.Errorf("append after the tail was cut: %v, want the contradiction", err)
	}
}
