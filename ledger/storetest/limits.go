package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	godigest "github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger"
)

// sha512 is a digest that is well formed and of another algorithm.
var sha512 = godigest.Digest("sha512:" + strings.Repeat("0", 128))

// largest appends one entry that is as large as a log lets it be, with as many
// artifacts as take several statements, among others in one batch.
func largest(t *testing.T, s ledger.Store) {
	entries, nodes := Batch(t, s, 0, 3, "x")
	big := make([]byte, ledger.MaxBundleBytes)
	fill := rand.NewChaCha8([32]byte{1})
	fill.Read(big) // never fails
	e := &entries[1]
	e.Bundle, e.Record.Bundle = big, godigest.FromBytes(big)
	e.Record.Leaf = bytes.Repeat([]byte{0xff, 0}, ledger.MaxLeafBytes/2)
	e.Record.Dependencies = nil
	for i := range 20_000 {
		e.Record.Dependencies = append(e.Record.Dependencies, ledger.Ref{Name: fmt.Sprint(i), Digest: Digest(fmt.Sprint("part ", i%15_000))})
	}
	if err := s.Append(t.Context(), 0, entries, nodes); err != nil {
		t.Fatal(err)
	}
	for i, e := range entries {
		r, err := s.Record(t.Context(), ledger.LeafIndex(i))
		if err != nil || !reflect.DeepEqual(r, e.Record) {
			t.Errorf("record %d came back otherwise: %d dependencies, leaf of %d bytes, %v", i, len(r.Dependencies), len(r.Leaf), err)
		}
		if b, err := s.Bundle(t.Context(), ledger.LeafIndex(i)); err != nil || !bytes.Equal(b, e.Bundle) {
			t.Errorf("bundle %d of %d bytes came back as %d, %v", i, len(e.Bundle), len(b), err)
		}
	}
	wantSize(t, s, 3)
}

// long appends a batch of more rows than go into one statement, and reads all
// of its nodes at once, some twice.
func long(t *testing.T, s ledger.Store) {
	const n = 2500
	grow(t, s, 1)
	entries, nodes := Batch(t, s, 1, n, "long")
	if err := s.Append(t.Context(), 1, entries, nodes); err != nil {
		t.Fatal(err)
	}
	wantSize(t, s, n+1)
	for _, i := range []int{0, 1, 1023, 1024, n - 1} {
		r, err := s.Record(t.Context(), ledger.LeafIndex(i+1))
		if err != nil || !reflect.DeepEqual(r, entries[i].Record) {
			t.Errorf("record %d: %+v, %v; want %+v", i+1, r, err, entries[i].Record)
		}
	}
	first := tlog.StoredHashIndex(0, 1)
	var asked []int64
	for range 2 {
		for i := range nodes {
			asked = append(asked, first+int64(len(nodes)-1-i))
		}
	}
	got, err := s.Hashes(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range asked {
		if got[i] != nodes[x-first] {
			t.Fatalf("node %d of %d asked: another than was appended", x, len(asked))
		}
	}
	from, found := ledger.LeafIndex(0), 0
	for {
		list, err := s.ByArtifact(t.Context(), Digest("long"), ledger.Dependency, from, 999)
		if err != nil {
			t.Fatal(err)
		}
		if found += len(list); len(list) < 999 {
			break
		}
		from = list[len(list)-1] + 1
	}
	if found != n {
		t.Errorf("%d entries name the artifact, in pages; want %d", found, n)
	}
}

// absurd asks for what cannot be there.
func absurd(t *testing.T, s ledger.Store) {
	grow(t, s, 2)
	ctx := t.Context()
	for _, i := range []ledger.LeafIndex{math.MinInt64, -1, 2, 1 << 32, 1 << 40, math.MaxInt64} {
		if _, err := s.Record(ctx, i); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("record %d: %v, want ErrNotFound", i, err)
		}
		if _, err := s.Bundle(ctx, i); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("bundle %d: %v, want ErrNotFound", i, err)
		}
		if _, err := s.Hashes(ctx, []int64{0, int64(i) | 1<<20}); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("node %d: %v, want ErrNotFound", int64(i)|1<<20, err)
		}
	}
	for _, c := range []struct {
		from  ledger.LeafIndex
		limit int
		want  int
	}{{0, 0, 0}, {math.MaxInt64, 5, 0}, {math.MinInt64, 5, 2}, {-1, 1, 1}, {0, math.MaxInt32, 2}} {
		list, err := s.ByArtifact(ctx, Digest("tool"), ledger.Dependency, c.from, c.limit)
		if err != nil || len(list) != c.want {
			t.Errorf("from %d, at most %d: %v, %v; want %d entries", c.from, c.limit, list, err, c.want)
		}
	}
	if got, err := s.Hashes(ctx, nil); err != nil || len(got) != 0 {
		t.Errorf("no nodes asked: %v, %v", got, err)
	}
	for _, bad := range []godigest.Digest{"", "sha256:", "sha256:00", "md5:d41d8cd98f00b204e9800998ecf8427e", "x\x00", sha512} {
		if _, err := s.ByBundle(ctx, bad); err == nil {
			t.Errorf("found a bundle with the digest %q", bad)
		}
		if list, err := s.ByArtifact(ctx, bad, ledger.Subject, 0, 10); err == nil && len(list) != 0 {
			t.Errorf("found an artifact with the digest %q", bad)
		}
	}
}

// wrongDigests gives digests that no row can hold.
func wrongDigests(t *testing.T, s ledger.Store) {
	grow(t, s, 2)
	for _, bad := range []godigest.Digest{"", "sha256:", godigest.Digest("sha256:" + strings.Repeat("A", 64)), "md5:d41d8cd98f00b204e9800998ecf8427e", sha512} {
		for what, spoil := range map[string]func(r *ledger.Record){
			"bundle":     func(r *ledger.Record) { r.Bundle = bad },
			"subject":    func(r *ledger.Record) { r.Subjects[0].Digest = bad },
			"dependency": func(r *ledger.Record) { r.Dependencies[1].Digest = bad },
		} {
			entries, nodes := Batch(t, s, 2, 3, "x")
			spoil(&entries[2].Record)
			if err := s.Append(t.Context(), 2, entries, nodes); err == nil || errors.Is(err, ledger.ErrConflict) || errors.Is(err, ledger.ErrDuplicate) {
				t.Errorf("append of a %s with the digest %q: %v, want it refused", what, bad, err)
			}
		}
	}
	wantSize(t, s, 2)
	if list, err := s.ByArtifact(t.Context(), Digest("x"), ledger.Dependency, 0, 9); err != nil || len(list) != 0 {
		t.Errorf("a refused entry's artifact is found: %v, %v", list, err)
	}
	grow(t, s, 1)
}
