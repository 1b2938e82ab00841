package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/checkpoints"
	"github.com/weighmaster/weighmaster/ledger/memory"
	"github.com/weighmaster/weighmaster/ledger/sqlite"
	"github.com/weighmaster/weighmaster/ledger/storetest"
)

// site is where one log lives.
type site struct {
	store       ledger.Store
	checkpoints ledger.Checkpoints
	db, dir     string // paths of an on-disk log
}

func (s *site) options(t testing.TB) ledger.Options {
	t.Helper()
	signer, verifier := storetest.Keys(t, storetest.Origin, 1)
	return ledger.Options{
		Origin: storetest.Origin, Signer: signer, Verifier: verifier,
		Checkpoints: s.checkpoints, Index: storetest.Index,
		Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
	}
}

func inMemory() *site {
	return &site{store: memory.NewStore(), checkpoints: memory.NewCheckpoints()}
}

func onDisk(t testing.TB) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{db: filepath.Join(dir, "ledger.db"), dir: filepath.Join(dir, "checkpoints")}
	store, err := sqlite.Create(t.Context(), s.db)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	s.store = store
	if s.checkpoints, err = checkpoints.Create(s.dir); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *site) create(t testing.TB) *ledger.Log {
	t.Helper()
	log, err := ledger.Create(t.Context(), s.store, s.options(t))
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// chain appends n entries, each made of the one before.
func chain(t testing.TB, log *ledger.Log, n int) []ledger.Entry {
	t.Helper()
	var list []ledger.Entry
	for i := range n {
		list = append(list, appendOne(t, log, i))
	}
	return list
}

func sizesOf(t testing.TB, c ledger.Checkpoints) []int64 {
	t.Helper()
	var list []int64
	for size, err := range c.Sizes(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, size)
	}
	return list
}

// checkpointFile is the path of a checkpoint below the folder of all.
func checkpointFile(t testing.TB, dir string, size int64) string {
	t.Helper()
	d, err := checkpoints.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return d.File(size)
}

func step(i int) []byte {
	return storetest.Bundle(fmt.Sprintf("step %d", i), []string{fmt.Sprintf("file %d", i+1)}, []string{fmt.Sprintf("file %d", i), "tool"})
}

func appendOne(t testing.TB, log *ledger.Log, i int) ledger.Entry {
	t.Helper()
	e, err := log.Append(context.Background(), step(i))
	if err != nil {
		t.Fatalf("append %d: %v", i, err)
	}
	return e
}

func mustVerify(t testing.TB, log *ledger.Log) ledger.Verification {
	t.Helper()
	v, err := log.Verify(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if !v.OK() {
		t.Fatalf("verify: contradiction %v, findings %v", v.Contradiction, v.Findings)
	}
	return v
}

func TestAppendReadVerify(t *testing.T) {
	for name, s := range map[string]*site{"memory": inMemory(), "disk": onDisk(t)} {
		t.Run(name, func(t *testing.T) {
			log := s.create(t)
			mustVerify(t, log)
			for i, e := range chain(t, log, 23) {
				if e.Existed || int(e.Index) != i || e.Leaf.Appended != "2026-01-02T03:04:05Z" {
					t.Fatalf("entry %d: %+v", i, e)
				}
			}
			v := mustVerify(t, log)
			if v.Size != 23 || v.Checkpoints != 25 { // 0 to 23 and the latest again
				t.Errorf("verified %d entries and %d checkpoints, want 23 and 25", v.Size, v.Checkpoints)
			}
			again, err := log.Append(t.Context(), step(7))
			if err != nil || !again.Existed || again.Index != 7 {
				t.Errorf("the same bundle again: %+v, %v; want entry 7, existed", again, err)
			}
			n := 0
			for e, err := range log.Entries(t.Context()) {
				if err != nil || !bytes.Equal(e.Bundle, step(n)) {
					t.Fatalf("entry %d: %v", n, err)
				}
				n++
			}
			if n != 23 {
				t.Errorf("went through %d entries, want 23", n)
			}
			if _, err := log.Entry(t.Context(), 23); !errors.Is(err, ledger.ErrNotFound) {
				t.Errorf("entry past the end: %v, want ErrNotFound", err)
			}
			found, err := log.Find(t.Context(), storetest.Digest("file 5"))
			if err != nil || len(found) != 2 || found[0].Index != 4 || found[1].Index != 5 {
				t.Errorf("find: %v, %v; want entries 4 and 5", found, err)
			}
			reopened, err := ledger.Open(t.Context(), s.store, s.options(t))
			if err != nil {
				t.Fatal(err)
			}
			if v := mustVerify(t, reopened); v.Size != 23 {
				t.Errorf("reopened: %d entries, want 23", v.Size)
			}
		})
	}
}

func TestProof(t *testing.T) {
	s := inMemory()
	log := s.create(t)
	_, verifier := storetest.Keys(t, storetest.Origin, 1)
	entries := chain(t, log, 1)
	early, err := log.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < 12; i++ {
		entries = append(entries, appendOne(t, log, i))
	}
	for _, e := range entries {
		proof, err := log.Prove(t.Context(), e.Index, nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := ledger.VerifyProof(proof, e.Leaf, verifier)
		if err != nil || c.Size != 12 {
			t.Fatalf("proof of %d: size %d, %v", e.Index, c.Size, err)
		}
		other := entries[(int(e.Index)+1)%len(entries)].Leaf
		if _, err := ledger.VerifyProof(proof, other, verifier); err == nil {
			t.Errorf("proof of %d holds for another leaf", e.Index)
		}
	}
	if _, err := log.Prove(t.Context(), 0, early); err != nil {
		t.Errorf("prove against an earlier checkpoint: %v", err)
	}
	if _, err := log.Prove(t.Context(), 1, early); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("prove an entry that the checkpoint does not cover: %v, want ErrNotFound", err)
	}
}
