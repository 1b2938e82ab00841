package ledger_test

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/storetest"
)

func steps(from, to int) [][]byte {
	var list [][]byte
	for i := from; i < to; i++ {
		list = append(list, step(i))
	}
	return list
}

// TestAppendAll appends in batches, with bundles that are there already and
// with repetitions inside a batch. The tree must be the one of single appends.
func TestAppendAll(t *testing.T) {
	for name, s := range map[string]*site{"memory": inMemory(), "disk": onDisk(t)} {
		t.Run(name, func(t *testing.T) {
			log := s.create(t)
			for _, c := range []struct {
				name    string
				bundles [][]byte
				index   []int
				existed []bool
				size    int64
			}{
				{"none", nil, nil, nil, 0},
				{"one", steps(0, 1), []int{0}, []bool{false}, 1},
				{"three", steps(1, 4), []int{1, 2, 3}, []bool{false, false, false}, 4},
				{"all there", steps(1, 3), []int{1, 2}, []bool{true, true}, 4},
				{"some there", steps(2, 6), []int{2, 3, 4, 5}, []bool{true, true, false, false}, 6},
				{"one twice in the batch", [][]byte{step(6), step(7), step(6), step(0)}, []int{6, 7, 6, 0}, []bool{false, false, true, true}, 8},
				{"a hundred", steps(8, 108), nil, nil, 108},
			} {
				before := sizesOf(t, s.checkpoints)
				entries, err := log.AppendAll(t.Context(), c.bundles)
				if err != nil || len(entries) != len(c.bundles) {
					t.Fatalf("%s: %d entries of %d bundles, %v", c.name, len(entries), len(c.bundles), err)
				}
				for i, e := range entries {
					if !bytes.Equal(e.Bundle, c.bundles[i]) {
						t.Errorf("%s: entry %d has another bundle", c.name, i)
					}
					if c.index != nil && (int(e.Index) != c.index[i] || e.Existed != c.existed[i]) {
						t.Errorf("%s: bundle %d became entry %d, existed %v; want %d, %v", c.name, i, e.Index, e.Existed, c.index[i], c.existed[i])
					}
				}
				if v := mustVerify(t, log); v.Size != c.size {
					t.Errorf("%s: %d entries, want %d", c.name, v.Size, c.size)
				}
				after := sizesOf(t, s.checkpoints)
				if len(after) > len(before)+1 || after[len(after)-1] != c.size {
					t.Errorf("%s: checkpoints of sizes %v after %v; want one more, of size %d", c.name, after, before, c.size)
				}
			}
			single := inMemory()
			one := single.create(t)
			chain(t, one, 108)
			if got, want := mustVerify(t, log).Root, mustVerify(t, one).Root; got != want {
				t.Errorf("root %v of batches, %v of single appends", got, want)
			}
		})
	}
}

func TestAppendAllRefused(t *testing.T) {
	s := inMemory()
	log := s.create(t)
	chain(t, log, 3)
	for _, c := range []struct {
		name    string
		bundles [][]byte
		want    string
	}{
		{"a bundle that cannot be read", [][]byte{step(3), []byte("no"), step(4)}, "read the bundle 2 of 3"},
		{"an empty bundle", [][]byte{step(3), {}}, "bundle 2 of 2 of 0 bytes"},
		{"a bundle over the cap", [][]byte{step(3), make([]byte, ledger.MaxBundleBytes+1)}, "bundle 2 of 2 of 16777217 bytes"},
		{"too many bundles", make([][]byte, ledger.MaxBatchEntries+1), "10001 bundles at once"},
		{"a name over the cap", [][]byte{step(3), storetest.Bundle("x", []string{strings.Repeat("n", ledger.MaxNameBytes+1)}, nil)}, "what the bundle 2 of 2 says"},
	} {
		if _, err := log.AppendAll(t.Context(), c.bundles); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if v := mustVerify(t, log); v.Size != 3 {
			t.Errorf("%s: %d entries, want 3", c.name, v.Size)
		}
	}
	opt := s.options(t)
	opt.Signer = nil
	reader, err := ledger.Open(t.Context(), s.store, opt)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.AppendAll(t.Context(), steps(3, 5)); !errors.Is(err, ledger.ErrReadOnly) {
		t.Errorf("without a key: %v, want ErrReadOnly", err)
	}
}

// TestAppendAllConcurrent lets writers append overlapping batches: each bundle
// becomes one entry, and every writer is told the same index.
func TestAppendAllConcurrent(t *testing.T) {
	s := onDisk(t)
	log := s.create(t)
	const writers, each, apart = 6, 40, 20
	got := make([][]ledger.Entry, writers)
	var wg sync.WaitGroup
	for w := range writers {
		own, err := ledger.Open(t.Context(), s.store, s.options(t))
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if got[w], err = own.AppendAll(t.Context(), steps(w*apart, w*apart+each)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if v := mustVerify(t, log); v.Size != apart*(writers-1)+each {
		t.Errorf("%d entries, want %d", v.Size, apart*(writers-1)+each)
	}
	index := map[string]ledger.LeafIndex{}
	for w, entries := range got {
		for _, e := range entries {
			if at, ok := index[string(e.Bundle)]; ok && at != e.Index {
				t.Errorf("writer %d was told entry %d, another %d", w, e.Index, at)
			}
			index[string(e.Bundle)] = e.Index
		}
	}
}
