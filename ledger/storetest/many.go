package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger"
)

// pending reads the nodes of a store and of a batch that is not in it yet.
type pending struct {
	ledger.Store
	first int64
	added []tlog.Hash
}

func (p *pending) Hashes(ctx context.Context, indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		if x >= p.first {
			out[i] = p.added[x-p.first]
			continue
		}
		h, err := p.Store.Hashes(ctx, []int64{x})
		if err != nil {
			return nil, err
		}
		out[i] = h[0]
	}
	return out, nil
}

// Batch makes n entries, with the nodes that they complete, for the end of a store of the given size.
func Batch(t testing.TB, s ledger.Store, size, n int64, label string) ([]ledger.NewEntry, []tlog.Hash) {
	t.Helper()
	p := &pending{Store: s, first: tlog.StoredHashIndex(0, size)}
	var entries []ledger.NewEntry
	for i := range n {
		name := fmt.Sprintf("%s %d", label, i)
		r, b, nodes := record(t, p, size+i, Bundle(name, []string{name}, []string{"tool", label, "tool"}))
		entries = append(entries, ledger.NewEntry{Record: r, Bundle: b})
		p.added = append(p.added, nodes...)
	}
	return entries, p.added
}

func many(t *testing.T, s ledger.Store) {
	ctx := t.Context()
	grow(t, s, 3)
	if err := s.Append(ctx, 3, nil, nil); err != nil {
		t.Fatalf("append of nothing: %v", err)
	}
	wantSize(t, s, 3)
	for _, n := range []int64{1, 2, 61, 300} {
		size, err := s.Size(ctx)
		if err != nil {
			t.Fatal(err)
		}
		label := fmt.Sprintf("batch of %d", n)
		entries, nodes := Batch(t, s, size, n, label)
		if err := s.Append(ctx, size, entries, nodes); err != nil {
			t.Fatalf("append of %d: %v", n, err)
		}
		wantSize(t, s, size+n)
		for i, e := range entries {
			index := ledger.LeafIndex(size + int64(i))
			r, err := s.Record(ctx, index)
			if err != nil || !reflect.DeepEqual(r, e.Record) {
				t.Fatalf("record %d: %+v, %v; want %+v", index, r, err, e.Record)
			}
			if b, err := s.Bundle(ctx, index); err != nil || !bytes.Equal(b, e.Bundle) {
				t.Fatalf("bundle %d: %q, %v; want %q", index, b, err, e.Bundle)
			}
			if at, err := s.ByBundle(ctx, e.Record.Bundle); err != nil || at != index {
				t.Fatalf("by bundle: %d, %v; want %d", at, err, index)
			}
		}
		list, err := s.ByArtifact(ctx, Digest(label), ledger.Dependency, 0, 1000)
		if err != nil || int64(len(list)) != n || list[0] != ledger.LeafIndex(size) {
			t.Fatalf("%d entries name %q, %v; want %d from %d on", len(list), label, err, n, size)
		}
		first := tlog.StoredHashIndex(0, size)
		for i, want := range nodes {
			if got, err := s.Hashes(ctx, []int64{first + int64(i)}); err != nil || got[0] != want {
				t.Fatalf("node %d: %v, %v; want %v", first+int64(i), got, err, want)
			}
		}
	}
	grow(t, s, 1)
}

func manyRefused(t *testing.T, s ledger.Store) {
	ctx := t.Context()
	grow(t, s, 5)
	there, err := s.Bundle(ctx, 2)
	if err != nil {
		t.Fatal(err)
	}
	old, _, _ := record(t, s, 5, there)
	entries, nodes := Batch(t, s, 5, 4, "refused")
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	with := func(e ...ledger.NewEntry) []ledger.NewEntry {
		return append(append([]ledger.NewEntry{}, entries...), e...)
	}
	for _, c := range []struct {
		name    string
		ctx     context.Context
		size    int64
		entries []ledger.NewEntry
		want    error
	}{
		{"another size", ctx, 4, entries, ledger.ErrConflict},
		{"a size ahead", ctx, 6, entries, ledger.ErrConflict},
		{"one that is there at the end", ctx, 5, with(ledger.NewEntry{Record: old, Bundle: there}), ledger.ErrDuplicate},
		{"one twice", ctx, 5, with(entries[1]), ledger.ErrDuplicate},
		{"a cancelled context", cancelled, 5, entries, context.Canceled},
	} {
		if err := s.Append(c.ctx, c.size, c.entries, nodes); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		wantSize(t, s, 5)
		for i, e := range entries {
			if _, err := s.ByBundle(ctx, e.Record.Bundle); !errors.Is(err, ledger.ErrNotFound) {
				t.Errorf("%s: entry %d of the refused is found: %v", c.name, i, err)
			}
		}
		if list, err := s.ByArtifact(ctx, Digest("refused"), ledger.Dependency, 0, 9); err != nil || len(list) != 0 {
			t.Errorf("%s: the refused entries' artifact is found: %v, %v", c.name, list, err)
		}
	}
	if err := s.Append(ctx, 5, entries, nodes); err != nil {
		t.Fatalf("the same without a fault: %v", err)
	}
	wantSize(t, s, 9)
}

// wholeBatches lets readers look at the size while a writer appends batches
// of 8: no reader sees a part of one.
func wholeBatches(t *testing.T, s ledger.Store) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				size, err := s.Size(context.Background())
				if err != nil || size%8 != 0 {
					t.Errorf("a reader sees %d entries, %v; want whole batches of 8", size, err)
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
	for i := range int64(12) {
		entries, nodes := Batch(t, s, 8*i, 8, fmt.Sprint("whole ", i))
		if err := s.Append(t.Context(), 8*i, entries, nodes); err != nil {
			t.Error(err)
			break
		}
	}
	close(done)
	wg.Wait()
	wantSize(t, s, 96)
}
