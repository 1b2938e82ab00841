// Package storetest holds the suite that every [ledger.Store] must pass, and
// the bundles and keys that tests of the ledger share.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	godigest "github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger"
)

// Run checks the contract of [ledger.Store]. open gives a new, empty store.
func Run(t *testing.T, open func(t *testing.T) ledger.Store) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, s ledger.Store)
	}{
		{"empty", empty},
		{"what was appended is read", readBack},
		{"the caller's memory stays the caller's", isolated},
		{"another size is a conflict and changes nothing", conflict},
		{"a bundle twice is a duplicate and changes nothing", duplicate},
		{"many entries are appended as one", many},
		{"of many entries none is appended when one is refused", manyRefused},
		{"artifacts are found by role, in pages", byArtifact},
		{"nodes are read in the order asked", hashes},
		{"no artifacts, odd names, empty and large bundles", odd},
		{"names are kept byte for byte", names},
		{"the largest entry", largest},
		{"a long batch", long},
		{"what cannot be there is not found", absurd},
		{"wrong digests are refused and change nothing", wrongDigests},
		{"of concurrent writers one wins", concurrent},
		{"concurrent batches stay in one piece", race},
		{"an append that runs out of time happens as a whole or not", hurried},
		{"a cancelled context changes nothing", cancelled},
		{"readers see whole appends", whole},
		{"readers see whole appends of many", wholeBatches},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

// nth returns the n-th record of a store that has all before it.
func nth(t testing.TB, s ledger.Store, n int64, made, of []string) (ledger.Record, []byte, []tlog.Hash) {
	t.Helper()
	b := Bundle(fmt.Sprintf("payload %d", n), made, of)
	return record(t, s, n, b)
}

func record(t testing.TB, s ledger.Store, n int64, b []byte) (ledger.Record, []byte, []tlog.Hash) {
	t.Helper()
	x, err := Index(b)
	if err != nil {
		t.Fatal(err)
	}
	leaf := ledger.Leaf{Type: ledger.LeafType, PAE: x.PAE, Bundle: godigest.FromBytes(b), PredicateType: x.PredicateType, Appended: "2026-01-02T03:04:05Z"}
	canonical, err := leaf.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := tlog.StoredHashes(n, canonical, tlog.HashReaderFunc(func(x []int64) ([]tlog.Hash, error) {
		return s.Hashes(context.Background(), x)
	}))
	if err != nil {
		t.Fatal(err)
	}
	return ledger.Record{Leaf: canonical, Bundle: leaf.Bundle, Subjects: x.Subjects, Dependencies: x.Dependencies}, b, nodes
}

func one(r ledger.Record, b []byte) []ledger.NewEntry {
	return []ledger.NewEntry{{Record: r, Bundle: b}}
}

// grow appends n records; record i makes file i+1 of file i and a tool.
func grow(t testing.TB, s ledger.Store, n int64) {
	t.Helper()
	size, err := s.Size(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for i := size; i < size+n; i++ {
		r, b, nodes := nth(t, s, i, []string{fmt.Sprintf("file %d", i+1)}, []string{fmt.Sprintf("file %d", i), "tool", "tool"})
		if err := s.Append(context.Background(), i, one(r, b), nodes); err != nil {
			t.Fatalf("append %d: %v", i, err)
		}
	}
}

func wantSize(t testing.TB, s ledger.Store, want int64) {
	t.Helper()
	got, err := s.Size(context.Background())
	if err != nil || got != want {
		t.Fatalf("size %d, %v; want %d", got, err, want)
	}
	if findings, err := s.Check(context.Background()); err != nil || len(findings) != 0 {
		t.Fatalf("check: %v, %v; want nothing", findings, err)
	}
}

func empty(t *testing.T, s ledger.Store) {
	wantSize(t, s, 0)
	ctx := t.Context()
	if _, err := s.Record(ctx, 0); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("record: %v, want ErrNotFound", err)
	}
	if _, err := s.Record(ctx, -1); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("record -1: %v, want ErrNotFound", err)
	}
	if _, err := s.Bundle(ctx, 0); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("bundle: %v, want ErrNotFound", err)
	}
	if _, err := s.ByBundle(ctx, Digest("x")); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("by bundle: %v, want ErrNotFound", err)
	}
	if list, err := s.ByArtifact(ctx, Digest("x"), ledger.Subject, 0, 10); err != nil || len(list) != 0 {
		t.Errorf("by artifact: %v, %v; want none", list, err)
	}
	if _, err := s.Hashes(ctx, []int64{0}); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("hashes: %v, want ErrNotFound", err)
	}
}

func readBack(t *testing.T, s ledger.Store) {
	ctx := t.Context()
	for i := range int64(9) {
		r, b, nodes := nth(t, s, i, []string{"a", "b"}, []string{"c", "a"})
		if err := s.Append(ctx, i, one(r, b), nodes); err != nil {
			t.Fatal(err)
		}
		wantSize(t, s, i+1)
		got, err := s.Record(ctx, ledger.LeafIndex(i))
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Fatalf("record %d: %+v, %v; want %+v", i, got, err, r)
		}
		if got, err := s.Bundle(ctx, ledger.LeafIndex(i)); err != nil || !bytes.Equal(got, b) {
			t.Fatalf("bundle %d: %q, %v; want %q", i, got, err, b)
		}
		if got, err := s.ByBundle(ctx, r.Bundle); err != nil || int64(got) != i {
			t.Fatalf("by bundle: %d, %v; want %d", got, err, i)
		}
	}
}

func isolated(t *testing.T, s ledger.Store) {
	ctx := t.Context()
	r, b, nodes := nth(t, s, 0, []string{"a"}, []string{"b"})
	want := bytes.Clone(b)
	if err := s.Append(ctx, 0, one(r, b), nodes); err != nil {
		t.Fatal(err)
	}
	b[0], r.Leaf[0], r.Subjects[0].Name, nodes[0][0] = 'X', 'X', "X", nodes[0][0]^1
	got, err := s.Record(ctx, 0)
	if err != nil || got.Leaf[0] == 'X' || got.Subjects[0].Name != "a" {
		t.Fatalf("record follows the caller's memory: %+v, %v", got, err)
	}
	stored, err := s.Bundle(ctx, 0)
	if err != nil || !bytes.Equal(stored, want) {
		t.Fatalf("bundle follows the caller's memory: %q, %v", stored, err)
	}
	stored[0] = 'Y'
	if again, err := s.Bundle(ctx, 0); err != nil || !bytes.Equal(again, want) {
		t.Fatalf("bundle follows a reader's memory: %q, %v", again, err)
	}
	if h, err := s.Hashes(ctx, []int64{0}); err != nil || h[0] == nodes[0] {
		t.Fatalf("nodes follow the caller's memory: %v", err)
	}
}

func conflict(t *testing.T, s ledger.Store) {
	grow(t, s, 3)
	r, b, nodes := nth(t, s, 3, []string{"new"}, nil)
	for _, size := range []int64{-1, 0, 2, 4, 1 << 40} {
		if err := s.Append(t.Context(), size, one(r, b), nodes); !errors.Is(err, ledger.ErrConflict) {
			t.Errorf("append at %d to 3 entries: %v, want ErrConflict", size, err)
		}
	}
	wantSize(t, s, 3)
	if _, err := s.ByBundle(t.Context(), r.Bundle); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("the refused bundle is found: %v", err)
	}
	if list, err := s.ByArtifact(t.Context(), Digest("new"), ledger.Subject, 0, 10); err != nil || len(list) != 0 {
		t.Errorf("the refused entry's artifact is found: %v, %v", list, err)
	}
	grow(t, s, 1)
}

func duplicate(t *testing.T, s ledger.Store) {
	grow(t, s, 2)
	b, err := s.Bundle(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	r, b, nodes := record(t, s, 2, b)
	if err := s.Append(t.Context(), 2, one(r, b), nodes); !errors.Is(err, ledger.ErrDuplicate) {
		t.Errorf("append of a bundle that is there: %v, want ErrDuplicate", err)
	}
	wantSize(t, s, 2)
	grow(t, s, 1)
}

func byArtifact(t *testing.T, s ledger.Store) {
	grow(t, s, 7)
	ctx := t.Context()
	for _, c := range []struct {
		name  string
		role  ledger.Role
		from  ledger.LeafIndex
		limit int
		want  []ledger.LeafIndex
	}{
		{"file 3", ledger.Subject, 0, 10, []ledger.LeafIndex{2}},
		{"file 3", ledger.Dependency, 0, 10, []ledger.LeafIndex{3}},
		{"tool", ledger.Subject, 0, 10, nil},
		{"tool", ledger.Dependency, 0, 10, []ledger.LeafIndex{0, 1, 2, 3, 4, 5, 6}},
		{"tool", ledger.Dependency, 2, 3, []ledger.LeafIndex{2, 3, 4}},
		{"tool", ledger.Dependency, 6, 3, []ledger.LeafIndex{6}},
		{"tool", ledger.Dependency, 7, 3, nil},
		{"nothing", ledger.Dependency, 0, 3, nil},
	} {
		got, err := s.ByArtifact(ctx, Digest(c.name), c.role, c.from, c.limit)
		if err != nil || len(got) != len(c.want) || len(got) > 0 && !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s, role %d, from %d, limit %d: %v, %v; want %v", c.name, c.role, c.from, c.limit, got, err, c.want)
		}
	}
}

func hashes(t *testing.T, s ledger.Store) {
	grow(t, s, 100)
	ctx := t.Context()
	n := tlog.StoredHashCount(100)
	var up, down []int64
	for i := range n {
		up, down = append(up, i), append(down, n-1-i)
	}
	a, err := s.Hashes(ctx, up)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Hashes(ctx, down)
	if err != nil {
		t.Fatal(err)
	}
	for i := range a {
		if a[i] != b[len(b)-1-i] {
			t.Fatalf("node %d differs with the order asked", i)
		}
	}
	twice, err := s.Hashes(ctx, []int64{5, 2, 5})
	if err != nil || twice[0] != a[5] || twice[1] != a[2] || twice[2] != a[5] {
		t.Errorf("a node asked twice: %v", err)
	}
	for _, x := range []int64{n, -1} {
		if _, err := s.Hashes(ctx, []int64{0, x}); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("node %d of %d: %v, want ErrNotFound", x, n, err)
		}
	}
}

func odd(t *testing.T, s ledger.Store) {
	names := []string{"", "a\x00b", "'; DROP TABLE entries; --", "ä€😀", "a/../b", "same", "same"}
	r, b, nodes := nth(t, s, 0, nil, nil)
	if err := s.Append(t.Context(), 0, one(r, b), nodes); err != nil {
		t.Fatal(err)
	}
	r, b, nodes = nth(t, s, 1, names, names)
	if err := s.Append(t.Context(), 1, one(r, b), nodes); err != nil {
		t.Fatal(err)
	}
	got, err := s.Record(t.Context(), 1)
	if err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("odd names: %+v, %v; want %+v", got, err, r)
	}
	big := bytes.Repeat([]byte{0, 1, 2, 0xff}, 1<<20)
	r.Bundle = godigest.FromBytes(big)
	_, _, nodes = nth(t, s, 2, nil, nil)
	if err := s.Append(t.Context(), 2, one(r, big), nodes); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Bundle(t.Context(), 2); err != nil || !bytes.Equal(got, big) {
		t.Errorf("a bundle of %d bytes came back as %d, %v", len(big), len(got), err)
	}
	wantSize(t, s, 3)
}

func concurrent(t *testing.T, s ledger.Store) {
	const writers = 8
	for round := range int64(5) {
		var wg sync.WaitGroup
		results := make([]error, writers)
		for w := range writers {
			b := Bundle(fmt.Sprintf("round %d writer %d", round, w), nil, nil)
			r, b, nodes := record(t, s, round, b)
			wg.Go(func() { results[w] = s.Append(context.Background(), round, one(r, b), nodes) })
		}
		wg.Wait()
		won := 0
		for _, err := range results {
			switch {
			case err == nil:
				won++
			case !errors.Is(err, ledger.ErrConflict):
				t.Errorf("round %d: %v, want ErrConflict", round, err)
			}
		}
		if won != 1 {
			t.Fatalf("round %d: %d writers won, want 1", round, won)
		}
		wantSize(t, s, round+1)
	}
}

func cancelled(t *testing.T, s ledger.Store) {
	grow(t, s, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, b, nodes := nth(t, s, 1, nil, nil)
	if err := s.Append(ctx, 1, one(r, b), nodes); !errors.Is(err, context.Canceled) {
		t.Errorf("append with a cancelled context: %v, want context.Canceled", err)
	}
	wantSize(t, s, 1)
}

// whole lets readers look for the newest entry while a writer appends.
func whole(t *testing.T, s ledger.Store) {
	const n = 40
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				if err := newestIsWhole(s); err != nil {
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
	grow(t, s, n)
	close(done)
	wg.Wait()
	wantSize(t, s, n)
}

func newestIsWhole(s ledger.Store) error {
	ctx := context.Background()
	size, err := s.Size(ctx)
	if err != nil || size == 0 {
		return err
	}
	index := ledger.LeafIndex(size - 1)
	r, err := s.Record(ctx, index)
	if err != nil {
		return err
	}
	if len(r.Subjects) != 1 || len(r.Dependencies) != 3 {
		return fmt.Errorf("entry %d has %d subjects and %d dependencies, want 1 and 3", index, len(r.Subjects), len(r.Dependencies))
	}
	if _, err := s.Bundle(ctx, index); err != nil {
		return err
	}
	_, err = s.Hashes(ctx, []int64{tlog.StoredHashCount(size) - 1})
	return err
}
