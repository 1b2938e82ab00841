package tiles_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/memory"
	"github.com/weighmaster/weighmaster/ledger/storetest"
	"github.com/weighmaster/weighmaster/ledger/tiles"
)

// newLog makes an empty log in a store.
func newLog(t testing.TB, s ledger.Store, number byte) (*ledger.Log, note.Verifier) {
	t.Helper()
	signer, verifier := storetest.Keys(t, storetest.Origin, number)
	log, err := ledger.Create(t.Context(), s, ledger.Options{
		Origin: storetest.Origin, Signer: signer, Verifier: verifier, Checkpoints: memory.NewCheckpoints(), Index: storetest.Index,
		Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return log, verifier
}

// grow appends the entries from..to-1.
func grow(t testing.TB, log *ledger.Log, word string, from, to int) {
	t.Helper()
	for from < to {
		var batch [][]byte
		for ; from < to && len(batch) < 1000; from++ {
			batch = append(batch, storetest.Bundle(fmt.Sprint(word, from), []string{fmt.Sprint(from)}, nil))
		}
		if _, err := log.AppendAll(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
}

// exported makes a log of n entries and exports it.
func exported(t testing.TB, n int) (*ledger.Log, note.Verifier, string) {
	t.Helper()
	log, verifier := newLog(t, memory.NewStore(), 1)
	grow(t, log, "", 0, n)
	folder := filepath.Join(t.TempDir(), "tiles")
	res, err := tiles.Export(t.Context(), log, folder)
	if err != nil {
		t.Fatal(err)
	}
	if res.Size != int64(n) || res.Previous != -1 {
		t.Fatalf("%+v, want %d entries, new", res, n)
	}
	return log, verifier, folder
}

func verify(t testing.TB, folder string, v note.Verifier, elsewhere ...[]byte) tiles.Verification {
	t.Helper()
	res, err := tiles.Verify(t.Context(), os.DirFS(folder), v, elsewhere...)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// files reads a whole folder.
func files(t testing.TB, folder string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(folder), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		all[name], err = os.ReadFile(filepath.Join(folder, name))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestExportVerifies(t *testing.T) {
	for _, c := range []struct{ size, files int }{{0, 0}, {1, 2}, {255, 2}, {256, 3}, {257, 5}, {1000, 9}} {
		_, verifier, folder := exported(t, c.size)
		v := verify(t, folder, verifier)
		if !v.OK() || v.Size != int64(c.size) || v.Files != c.files || v.Ahead != 0 {
			t.Errorf("%d entries: %+v, want %d files", c.size, v, c.files)
		}
	}
}

// TestIncremental: exports of a growing log leave what one export leaves, and
// the tiles of every checkpoint that was in the folder.
func TestIncremental(t *testing.T) {
	log, verifier := newLog(t, memory.NewStore(), 1)
	folder := filepath.Join(t.TempDir(), "tiles")
	var published [][]byte
	size := 0
	for _, next := range []int{0, 3, 3, 200, 256, 257, 511, 512, 700} {
		grow(t, log, "", size, next)
		size = next
		before := files(t, discard(t, folder))
		if _, err := tiles.Export(t.Context(), log, folder); err != nil {
			t.Fatal(err)
		}
		after := files(t, folder)
		for name, data := range before {
			if name != "checkpoint" && !bytes.Equal(after[name], data) {
				t.Errorf("the export of %d entries changed %s", next, name)
			}
		}
		if v := verify(t, folder, verifier, published...); !v.OK() || v.Compared != len(published) {
			t.Errorf("%d entries: %+v", next, v)
		}
		published = append(published, after["checkpoint"])
	}
	all := files(t, folder)
	_, _, once := exported(t, 700)
	for name, data := range files(t, once) {
		if !bytes.Equal(all[name], data) {
			t.Errorf("%s: %d bytes after many exports and %d after one", name, len(all[name]), len(data))
		}
	}
	for _, msg := range published {
		c, err := ledger.ParseCheckpoint(msg, verifier)
		if err != nil {
			t.Fatal(err)
		}
		v, err := tiles.VerifyTree(t.Context(), os.DirFS(folder), tlog.Tree{N: c.Size, Hash: c.Root})
		if err != nil || !v.OK() {
			t.Errorf("the tree of %d entries: %+v, %v", c.Size, v, err)
		}
	}
}

// discard makes the folder if it is not there.
func discard(t *testing.T, folder string) string {
	t.Helper()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}

// TestTamperedFolder alters each kind of file in each way and wants it named.
func TestTamperedFolder(t *testing.T) {
	const size = 600
	log, verifier, good := exported(t, 300) // whose partial tiles stay
	grow(t, log, "", 300, size)
	if _, err := tiles.Export(t.Context(), log, good); err != nil {
		t.Fatal(err)
	}
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[at] ^= 1; return b }
	}
	gone := func([]byte) []byte { return nil }
	for _, c := range []struct {
		name, file string
		edit       func([]byte) []byte
		check      string
		where, got string
	}{
		{"a byte of a full tile", "tile/0/001", flip(40), tiles.CheckEntries, "tile/entries/001, entry 257", "as in"},
		{"a byte of a partial tile", "tile/0/002.p/88", flip(87 * 32), tiles.CheckEntries, "entry 599", ""},
		{"a byte of a tile above", "tile/1/000.p/2", flip(33), tiles.CheckTile, "tile/1/000.p/2, hash 1", "from the entries"},
		{"a byte of an entry", "tile/entries/001", flip(60), tiles.CheckEntries, "tile/entries/001, entry 256", ""},
		{"a byte of the last entry", "tile/entries/002.p/88", func(b []byte) []byte { b[len(b)-3] ^= 1; return b }, tiles.CheckEntries, "entry 599", ""},
		{"the length of an entry", "tile/entries/000", flip(1), tiles.CheckEntries, "tile/entries/000", ""},
		{"an entry more", "tile/entries/002.p/88", func(b []byte) []byte { return append(b, 0, 1, 'x') }, tiles.CheckEntries, "tile/entries/002.p/88", "after the last of 88 entries"},
		{"entries cut", "tile/entries/001", func(b []byte) []byte { return b[:len(b)/2] }, tiles.CheckEntries, "tile/entries/001", ""},
		{"a tile cut", "tile/0/001", func(b []byte) []byte { return b[:8191] }, tiles.CheckTile, "tile/0/001", "8191 bytes, want 8192"},
		{"a tile too long", "tile/0/001", func(b []byte) []byte { return append(b, 0) }, tiles.CheckTile, "tile/0/001", "too long"},
		{"an endless bundle", "tile/entries/001", func([]byte) []byte { return make([]byte, 256*65537+1) }, tiles.CheckTile, "tile/entries/001", "too long"},
		{"a tile gone", "tile/0/000", gone, tiles.CheckFile, "tile/0/000", "no such file"},
		{"entries gone", "tile/entries/000", gone, tiles.CheckFile, "tile/entries/000", "no such file"},
		{"a tile above gone", "tile/1/000.p/2", gone, tiles.CheckFile, "tile/1/000.p/2", "no such file"},
		{"a partial tile of another width", "tile/0/002.p/88", func(b []byte) []byte { return b[:87*32] }, tiles.CheckTile, "tile/0/002.p/88", "2784 bytes, want 2816 for 88 hashes"},
		{"an older partial tile", "tile/0/001.p/44", flip(3), tiles.CheckTile, "tile/0/001.p/44", "begins with"},
		{"older partial entries", "tile/entries/001.p/44", flip(3), tiles.CheckTile, "tile/entries/001.p/44", "begins with"},
		{"a file of nobody's", "tile/0/0000", func([]byte) []byte { return []byte("x") }, tiles.CheckStray, "tile/0/0000", "none of the log's"},
		{"a file beside", "index.html", func([]byte) []byte { return []byte("x") }, tiles.CheckStray, "index.html", "none of the log's"},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			if err := os.CopyFS(folder, os.DirFS(good)); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(folder, c.file)
			data, err := os.ReadFile(path)
			if err != nil && c.check != tiles.CheckStray {
				t.Fatal(err)
			}
			os.Remove(path)
			if data = c.edit(data); data != nil {
				if err := os.WriteFile(path, data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			v := verify(t, folder, verifier)
			if v.OK() {
				t.Fatal("accepted")
			}
			f := v.Findings[0]
			if f.Check != c.check || !strings.Contains(f.Where, c.where) || !strings.Contains(f.Got+f.Want, c.got) {
				t.Errorf("%s; want check %q at %q with %q", f, c.check, c.where, c.got)
			}
			if v.Contradiction != nil {
				t.Error("an altered folder proves nothing against the log")
			}
		})
	}
	if v := verify(t, good, verifier); !v.OK() {
		t.Errorf("the folder that was not altered: %+v", v)
	}
}

// TestForgedEntries rewrites an entry and every tile to fit: only the signed root
// can show it.
func TestForgedEntries(t *testing.T) {
	_, verifier, honest := exported(t, 300)
	forged, _ := newLog(t, memory.NewStore(), 1)
	grow(t, forged, "forged", 0, 300)
	folder := filepath.Join(t.TempDir(), "tiles")
	if _, err := tiles.Export(t.Context(), forged, folder); err != nil {
		t.Fatal(err)
	}
	copyFile(t, honest, folder, "checkpoint")
	v := verify(t, folder, verifier)
	if len(v.Findings) != 1 || v.Findings[0].Check != ledger.CheckRoot {
		t.Errorf("%+v, want the root to differ and nothing else", v.Findings)
	}
}

func copyFile(t *testing.T, from, to, name string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(from, name))
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(filepath.Join(to, name))
	if err := os.WriteFile(filepath.Join(to, name), data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestCheckpointOfTheFolder: another log's, a newer one, an older one, none.
func TestCheckpointOfTheFolder(t *testing.T) {
	log, verifier, folder := exported(t, 300)
	old := files(t, folder)["checkpoint"]
	other, _ := newLog(t, memory.NewStore(), 2)
	grow(t, other, "", 0, 300)
	checkpoint, err := other.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	put := func(msg []byte) {
		t.Helper()
		os.Remove(filepath.Join(folder, "checkpoint"))
		if msg != nil {
			if err := os.WriteFile(filepath.Join(folder, "checkpoint"), msg, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name string
		msg  []byte
		want string
	}{
		{"of another key", checkpoint, "not signed by log.example/test"},
		{"altered", bytes.Replace(old, []byte("\n300\n"), []byte("\n200\n"), 1), "invalid signature"},
		{"cut", old[:40], "malformed note"},
		{"none", nil, "no such file"},
		{"endless", make([]byte, ledger.MaxCheckpointBytes+1), "too long"},
	} {
		put(c.msg)
		if _, err := tiles.Verify(t.Context(), os.DirFS(folder), verifier); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	grow(t, log, "", 300, 301)
	newer, err := log.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	put(newer)
	v := verify(t, folder, verifier)
	if v.OK() || v.Findings[0].Check != tiles.CheckFile || v.Findings[0].Where != "tile/0/001.p/45" {
		t.Errorf("%+v, want the tile that a newer checkpoint calls for to be missing", v.Findings)
	}
	// An older one is what an export leaves until it is done.
	put(old)
	if _, err := tiles.Export(t.Context(), log, folder); err != nil {
		t.Fatal(err)
	}
	put(old)
	if v := verify(t, folder, verifier); !v.OK() || v.Size != 300 || v.Ahead == 0 {
		t.Errorf("%+v, want the older tree to hold", v)
	}
	if v := verify(t, folder, verifier, newer); v.OK() || v.Contradiction != nil || !strings.Contains(v.Findings[0].Want, "signed before") {
		t.Errorf("%+v, want a folder that is older than a checkpoint refused and no contradiction", v)
	}
}

// TestForkOfTheFolder: two checkpoints that the log signed and that cannot hold
// beside each other are a contradiction, with both.
func TestForkOfTheFolder(t *testing.T) {
	_, verifier, folder := exported(t, 300)
	signed := files(t, folder)["checkpoint"]
	for _, size := range []int{1, 299, 300} {
		fork, _ := newLog(t, memory.NewStore(), 1)
		grow(t, fork, "fork", 0, size)
		elsewhere, err := fork.Checkpoint(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		v := verify(t, folder, verifier, elsewhere)
		if v.Contradiction == nil || v.OK() || !bytes.Equal(v.Contradiction.Signed, elsewhere) || !bytes.Equal(v.Contradiction.Other, signed) {
			t.Errorf("size %d: %+v, want a contradiction with both checkpoints", size, v)
		}
		// The exporter sees it too.
		target := filepath.Join(t.TempDir(), "tiles")
		if _, err := tiles.Export(t.Context(), fork, target); err != nil {
			t.Fatal(err)
		}
		var lied *ledger.Contradiction
		log, _ := newLog(t, memory.NewStore(), 1)
		grow(t, log, "", 0, 300)
		if _, err := tiles.Export(t.Context(), log, target); !errors.As(err, &lied) {
			t.Errorf("size %d: %v, want a contradiction", size, err)
		}
	}
}

// forger is a store that answers wrongly.
type forger struct {
	ledger.Store
	node int64               // whose hash is wrong; -1 for none
	leaf ledger.LeafIndex    // whose leaf is another one's; -1 for none
	fail func(n int64) error // of the nth record
	n    int64
}

func (f *forger) Hashes(ctx context.Context, indexes []int64) ([]tlog.Hash, error) {
	hashes, err := f.Store.Hashes(ctx, indexes)
	for i, x := range indexes {
		if err == nil && x == f.node {
			hashes[i][0] ^= 1
		}
	}
	return hashes, err
}

func (f *forger) Record(ctx context.Context, i ledger.LeafIndex) (ledger.Record, error) {
	f.n++
	if f.fail != nil {
		if err := f.fail(f.n); err != nil {
			return ledger.Record{}, err
		}
	}
	if i == f.leaf {
		i--
	}
	return f.Store.Record(ctx, i)
}

// TestExportOfADamagedStore: what the store says is checked while it is written.
func TestExportOfADamagedStore(t *testing.T) {
	for _, c := range []struct {
		name  string
		store forger
		want  string
	}{
		{"a stored leaf hash", forger{node: tlog.StoredHashIndex(0, 100), leaf: -1}, "node 100 at level 0"},
		{"a stored node", forger{node: tlog.StoredHashIndex(8, 1), leaf: -1}, "node 1 at level 8"},
		{"a leaf", forger{node: -1, leaf: 270}, "node 270 at level 0"},
		{"a read that fails", forger{node: -1, leaf: -1, fail: func(n int64) error {
			if n == 290 {
				return errors.New("disk on fire")
			}
			return nil
		}}, "disk on fire"},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := c.store
			store.Store = memory.NewStore()
			wrong := store
			store.node, store.leaf, store.fail = -1, -1, nil
			log, verifier := newLog(t, &store, 1)
			grow(t, log, "", 0, 200)
			folder := filepath.Join(t.TempDir(), "tiles")
			if _, err := tiles.Export(t.Context(), log, folder); err != nil {
				t.Fatal(err)
			}
			before := files(t, folder)["checkpoint"]
			grow(t, log, "", 200, 600)
			store.node, store.leaf, store.fail, store.n = wrong.node, wrong.leaf, wrong.fail, 0
			_, err := tiles.Export(t.Context(), log, folder)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if !bytes.Equal(files(t, folder)["checkpoint"], before) {
				t.Error("the checkpoint was replaced")
			}
			if v := verify(t, folder, verifier); !v.OK() || v.Size != 200 {
				t.Errorf("%+v, want the export from before to hold", v)
			}
			store.node, store.leaf, store.fail = -1, -1, nil
			if _, err := tiles.Export(t.Context(), log, folder); err != nil {
				t.Fatal(err)
			}
			if v := verify(t, folder, verifier); !v.OK() || v.Size != 600 {
				t.Errorf("%+v", v)
			}
		})
	}
}

func TestExportRefuses(t *testing.T) {
	log, _, folder := exported(t, 300)
	if _, err := tiles.Export(t.Context(), log, folder); err != nil {
		t.Fatal(err)
	}
	beside := t.TempDir()
	if err := os.WriteFile(filepath.Join(beside, "thesis.txt"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := tiles.Export(t.Context(), log, beside); err == nil || !strings.Contains(err.Error(), "thesis.txt") {
		t.Errorf("%v, want a folder with other files refused", err)
	}
	other, _ := newLog(t, memory.NewStore(), 2)
	grow(t, other, "", 0, 3)
	var note *ledger.CheckpointError
	if _, err := tiles.Export(t.Context(), other, folder); !errors.As(err, &note) {
		t.Errorf("%v, want another log's folder refused", err)
	}
	// A full tile that was altered in an export that has no checkpoint yet.
	os.Remove(filepath.Join(folder, "checkpoint"))
	tile := filepath.Join(folder, "tile", "0", "000")
	os.Remove(tile)
	if err := os.WriteFile(tile, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := tiles.Export(t.Context(), log, folder); err == nil || !strings.Contains(err.Error(), "with other bytes") {
		t.Errorf("%v, want an altered tile refused", err)
	}
	if _, err := os.Stat(filepath.Join(folder, "checkpoint")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want no checkpoint", err)
	}
}
