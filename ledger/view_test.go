package ledger_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/storetest"
)

// seenEntry is an entry with its proof as somebody outside has it.
type seenEntry struct {
	leaf  ledger.Leaf
	proof []byte
}

// prove proves entries of a log under its newest checkpoint.
func prove(t testing.TB, log *ledger.Log, indexes ...int) []seenEntry {
	t.Helper()
	var list []seenEntry
	for _, i := range indexes {
		e, err := log.Entry(t.Context(), ledger.LeafIndex(i))
		if err != nil {
			t.Fatal(err)
		}
		proof, err := log.Prove(t.Context(), e.Index, nil)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, seenEntry{e.Leaf, proof})
	}
	return list
}

func newView(t testing.TB) *ledger.View {
	t.Helper()
	_, verifier := storetest.Keys(t, storetest.Origin, 1)
	return ledger.NewView(verifier)
}

// TestViewOfAGrowingLog shows a view every entry under every checkpoint of an
// honest log: nothing contradicts.
func TestViewOfAGrowingLog(t *testing.T) {
	log := inMemory().create(t)
	w := newView(t)
	for n := 1; n <= 40; n++ {
		appendOne(t, log, n-1)
		for i := range n {
			e := prove(t, log, i)[0]
			index, c, err := w.Entry(e.proof, e.leaf)
			if err != nil || int(index) != i || c.Size != int64(n) {
				t.Fatalf("entry %d of %d: %d, size %d, %v", i, n, index, c.Size, err)
			}
		}
	}
}

// forked makes two logs by one key that agree on the first common entries and
// have left and right in all.
func forked(t testing.TB, common, left, right int) (*ledger.Log, *ledger.Log) {
	t.Helper()
	a, b := inMemory().create(t), inMemory().create(t)
	for i := range max(left, right) {
		if i < left {
			appendOne(t, a, i)
		}
		if i >= right {
			continue
		}
		if i < common {
			appendOne(t, b, i)
		} else {
			appendOne(t, b, 1000+i)
		}
	}
	return a, b
}

func TestViewOfAFork(t *testing.T) {
	for _, c := range []struct {
		common, left, right int
		of, then            []int // entries seen of the one, then of the other
		reason              string
	}{
		{4, 8, 8, []int{0}, []int{0}, "two checkpoints of size 8 have the roots"},
		{4, 8, 11, []int{5}, []int{5}, "under the checkpoint of size 8 and"},
		{4, 8, 11, []int{0}, []int{10}, "entries from 0 up to 7"}, // an entry past the fork stands on the others
		{4, 8, 11, []int{0}, []int{1}, "entries from 4 up to 7"},  // and one before it
		{4, 11, 8, []int{10}, []int{0}, "entries from 0 up to 7"}, // the second is cut back too
		{0, 1, 2, []int{0}, []int{1}, "entries from 0 up to 0"},
	} {
		a, b := forked(t, c.common, c.left, c.right)
		w := newView(t)
		for _, e := range prove(t, a, c.of...) {
			if _, _, err := w.Entry(e.proof, e.leaf); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		for _, e := range prove(t, b, c.then...) {
			if _, _, err = w.Entry(e.proof, e.leaf); err != nil {
				break
			}
		}
		if lied := wantContradiction(t, err, c.reason); lied.Other == nil || string(lied.Other) == string(lied.Signed) {
			t.Errorf("%+v: the proof does not carry two checkpoints", c)
		}
	}
}

// TestViewRefuses gives a view what is not the log's word.
func TestViewRefuses(t *testing.T) {
	log := inMemory().create(t)
	chain(t, log, 7)
	seen := prove(t, log, 2, 3)
	other := seen[0].leaf
	other.Appended = "2026-01-02T03:04:06Z"
	_, stranger := storetest.Keys(t, storetest.Origin, 2)
	var unusable *ledger.CheckpointError
	for _, c := range []struct {
		name  string
		view  *ledger.View
		proof []byte
		leaf  ledger.Leaf
		want  string
	}{
		{"the proof of another entry", newView(t), seen[1].proof, seen[0].leaf, "does not lead from the leaf"},
		{"another time", newView(t), seen[0].proof, other, "does not lead from the leaf"},
		{"another log's key", ledger.NewView(stranger), seen[0].proof, seen[0].leaf, "not signed by"},
		{"no proof", newView(t), []byte("c2sp.org/tlog-proof@v1\n"), seen[0].leaf, "index line"},
		{"an altered hash", newView(t), []byte(strings.Replace(string(seen[0].proof), "=\n", "=\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n", 1)), seen[0].leaf, "does not lead from the leaf"},
		{"no leaf", newView(t), seen[0].proof, ledger.Leaf{}, "leaf"},
	} {
		if _, _, err := c.view.Entry(c.proof, c.leaf); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := ledger.NewView(stranger).Checkpoint([]byte("x")); !errors.As(err, &unusable) {
		t.Errorf("no checkpoint: %v, want a *CheckpointError", err)
	}
}

// TestViewAlwaysFindsTheFork forks logs at every place: whoever saw an entry on
// one side and an entry at or behind the fork on the other side, finds it out
// where the two proofs have a complete subtree in common that differs.
func TestViewAlwaysFindsTheFork(t *testing.T) {
	const size = 9
	found := 0
	for common := range size {
		a, b := forked(t, common, size, size+4)
		for i := range size {
			for j := common; j < size; j++ {
				w := newView(t)
				e := prove(t, a, i)[0]
				if _, _, err := w.Entry(e.proof, e.leaf); err != nil {
					t.Fatal(err)
				}
				o := prove(t, b, j)[0]
				_, _, err := w.Entry(o.proof, o.leaf)
				var lied *ledger.Contradiction
				if err != nil && !errors.As(err, &lied) {
					t.Fatal(err)
				}
				if i == j && err == nil {
					t.Errorf("fork at %d: entry %d was seen to be two and nothing is said", common, i)
				}
				if err != nil {
					found++
				}
			}
		}
	}
	t.Logf("%d forks found out", found)
	if found < 250 {
		t.Errorf("%d forks found out, want at least 250", found)
	}
}
