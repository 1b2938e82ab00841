package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	godigest "github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger"
)

// race lets writers append batches, each trying again after a conflict, while
// readers look. Every batch must lie whole and in one piece.
func race(t *testing.T, s ledger.Store) {
	const writers, each, length = 4, 6, 5
	var wg, readers sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for {
				if err := newestBatchIsWhole(s, length); err != nil {
					t.Error(err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if err := insist(s, fmt.Sprintf("writer %d batch %d", w, i), length); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(done)
	readers.Wait()
	wantSize(t, s, writers*each*length)
	for w := range writers {
		for i := range each {
			label := fmt.Sprintf("writer %d batch %d", w, i)
			list, err := s.ByArtifact(t.Context(), Digest(label), ledger.Dependency, 0, 100)
			if err != nil || len(list) != length || int64(list[length-1]-list[0]) != length-1 || list[0]%length != 0 {
				t.Errorf("%s lies at %v, %v; want %d entries in one piece", label, list, err, length)
			}
		}
	}
}

// insist appends a batch with whatever nodes, until no other writer is first.
// Stores compute no hashes; the tree is not what is tested here.
func insist(s ledger.Store, label string, n int64) error {
	ctx := context.Background()
	for {
		size, err := s.Size(ctx)
		if err != nil {
			return err
		}
		var entries []ledger.NewEntry
		for i := range n {
			b := Bundle(fmt.Sprint(label, " ", i), nil, nil)
			entries = append(entries, ledger.NewEntry{
				Record: ledger.Record{Leaf: b, Bundle: godigest.FromBytes(b), Dependencies: []ledger.Ref{{Name: "x", Digest: Digest(label)}}},
				Bundle: b,
			})
		}
		nodes := make([]tlog.Hash, tlog.StoredHashCount(size+n)-tlog.StoredHashCount(size))
		if err := s.Append(ctx, size, entries, nodes); !errors.Is(err, ledger.ErrConflict) {
			return err
		}
	}
}

func newestBatchIsWhole(s ledger.Store, length int64) error {
	ctx := context.Background()
	size, err := s.Size(ctx)
	if err != nil || size == 0 {
		return err
	}
	if size%length != 0 {
		return fmt.Errorf("a reader sees %d entries, want whole batches of %d", size, length)
	}
	r, err := s.Record(ctx, ledger.LeafIndex(size-length))
	if err != nil {
		return err
	}
	list, err := s.ByArtifact(ctx, r.Dependencies[0].Digest, ledger.Dependency, 0, 100)
	if err != nil || int64(len(list)) != length {
		return fmt.Errorf("a reader finds %d entries of the newest batch, %v; want %d", len(list), err, length)
	}
	_, err = s.Hashes(ctx, []int64{tlog.StoredHashCount(size) - 1})
	return err
}

// hurried gives appends ever more time, from none to enough. Each happens as a
// whole or not at all; one that returned nil happened.
func hurried(t *testing.T, s ledger.Store) {
	size, late := int64(0), 0
	for d := time.Duration(0); ; d = d*3/2 + 20*time.Microsecond {
		entries, nodes := Batch(t, s, size, 40, fmt.Sprint("within ", d))
		ctx, cancel := context.WithTimeout(t.Context(), d)
		err := s.Append(ctx, size, entries, nodes)
		cancel()
		there := 0
		for _, e := range entries {
			if _, err := s.ByBundle(t.Context(), e.Record.Bundle); err == nil {
				there++
			} else if !errors.Is(err, ledger.ErrNotFound) {
				t.Fatal(err)
			}
		}
		if there != 0 && there != len(entries) || err == nil && there == 0 {
			t.Fatalf("within %s: %v, and %d of %d entries are there", d, err, there, len(entries))
		}
		size += int64(there)
		wantSize(t, s, size)
		if err == nil {
			break
		}
		late++
		if errors.Is(err, ledger.ErrConflict) || errors.Is(err, ledger.ErrDuplicate) {
			t.Errorf("within %s: %v, want an error that does not say that nothing happened", d, err)
		}
	}
	if late == 0 {
		t.Error("no append was interrupted")
	}
	grow(t, s, 1)
}

// Durable checks a store that outlives its handle: what was appended is there
// when it is opened again, and a closed handle answers with errors.
func Durable(t *testing.T, create, reopen func(t *testing.T) ledger.Store) {
	s := create(t)
	entries, nodes := Batch(t, s, 0, 5, "x")
	if err := s.Append(t.Context(), 0, entries, nodes); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if _, err := s.Size(ctx); err == nil {
		t.Error("a closed store has a size")
	}
	if err := s.Append(ctx, 5, entries[:1], nodes[:1]); err == nil || errors.Is(err, ledger.ErrConflict) || errors.Is(err, ledger.ErrDuplicate) {
		t.Errorf("append to a closed store: %v, want an error", err)
	}
	for what, ask := range map[string]func() error{
		"record":      func() error { _, err := s.Record(ctx, 0); return err },
		"bundle":      func() error { _, err := s.Bundle(ctx, 0); return err },
		"by bundle":   func() error { _, err := s.ByBundle(ctx, entries[0].Record.Bundle); return err },
		"by artifact": func() error { _, err := s.ByArtifact(ctx, Digest("x"), ledger.Dependency, 0, 1); return err },
		"hashes":      func() error { _, err := s.Hashes(ctx, []int64{0}); return err },
		"check":       func() error { _, err := s.Check(ctx); return err },
	} {
		if err := ask(); err == nil || errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("%s of a closed store: %v, want an error that does not say that nothing is there", what, err)
		}
	}
	again := reopen(t)
	wantSize(t, again, 5)
	for i, e := range entries {
		if b, err := again.Bundle(ctx, ledger.LeafIndex(i)); err != nil || string(b) != string(e.Bundle) {
			t.Errorf("bundle %d after opening again: %q, %v", i, b, err)
		}
	}
	grow(t, again, 2)
}
