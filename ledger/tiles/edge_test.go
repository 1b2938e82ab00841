package tiles

import (
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"

	"golang.org/x/mod/sumdb/tlog"
)

// nodeList is all nodes of a tree in storage order.
type nodeList []tlog.Hash

func (l nodeList) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		if x >= int64(len(l)) {
			return nil, fs.ErrNotExist
		}
		out[i] = l[x]
	}
	return out, nil
}

// TestLevels builds trees with tiles of three levels and lets package tlog, which
// knows tiles too, say what must be in each of them.
func TestLevels(t *testing.T) {
	var nodes nodeList
	var e edge
	folder := fstest.MapFS{}
	put := func(t tlog.Tile, hashes []tlog.Hash) error {
		folder[path(t)] = &fstest.MapFile{Data: appendHashes(nil, hashes)}
		return nil
	}
	var bundle []byte
	const size = 65536 + 300
	for n := range int64(size) {
		entry := fmt.Appendf(nil, "entry %d", n)
		stored, err := tlog.StoredHashes(n, entry, nodes)
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, stored...)
		if bundle, err = appendEntry(bundle, entry); err != nil {
			t.Fatal(err)
		}
		if err := e.push(tlog.RecordHash(entry), put); err != nil {
			t.Fatal(err)
		}
		if (n+1)%width == 0 || n+1 == size {
			folder[path(tileAt(entriesLevel, n/width, n+1))] = &fstest.MapFile{Data: bundle}
			bundle = nil
			if n+1 < size {
				begun, err := edgeAt(n+1, nodes)
				if err != nil {
					t.Fatal(err)
				}
				same(t, begun, &e)
			}
		}
	}
	if err := e.partial(put); err != nil {
		t.Fatal(err)
	}
	root, err := e.root()
	if err != nil {
		t.Fatal(err)
	}
	if want, err := tlog.TreeHash(size, nodes); err != nil || root != want {
		t.Errorf("root %s, %v, want %s", root, err, want)
	}
	wanted := tlog.NewTiles(height, 0, size)
	for _, tile := range wanted {
		want, err := tlog.ReadTileData(tile, nodes)
		if err != nil {
			t.Fatal(err)
		}
		file := folder[path(tile)]
		if file == nil || string(file.Data) != string(want) {
			t.Errorf("%s is not what package tlog makes of it", path(tile))
		}
	}
	if entries := (size + width - 1) / width; len(folder) != len(wanted)+entries {
		t.Errorf("%d files, want %d", len(folder), len(wanted)+entries)
	}
	for _, name := range []string{"tile/2/000.p/1", "tile/1/000", "tile/1/001.p/1", "tile/0/256", "tile/0/257.p/44", "tile/entries/257.p/44"} {
		if folder[name] == nil {
			t.Errorf("no %s", name)
		}
	}
	v, err := VerifyTree(t.Context(), folder, tlog.Tree{N: size, Hash: root})
	if err != nil || !v.OK() || v.Files != len(folder) {
		t.Errorf("%+v, %v", v, err)
	}
	for _, name := range []string{"tile/2/000.p/1", "tile/1/000", "tile/1/001.p/1"} {
		folder[name].Data[5] ^= 1
		v, err := VerifyTree(t.Context(), folder, tlog.Tree{N: size, Hash: root})
		if err != nil || len(v.Findings) != 1 || v.Findings[0].Check != CheckTile || v.Findings[0].Where != name+", hash 0" {
			t.Errorf("%s: %v, %v, want it named", name, v.Findings, err)
		}
		folder[name].Data[5] ^= 1
	}
}

// same says that two edges go on alike.
func same(t *testing.T, a, b *edge) {
	t.Helper()
	ra, errA := a.root()
	rb, errB := b.root()
	if errA != nil || errB != nil || ra != rb || a.size != b.size {
		t.Fatalf("size %d: root %s, %v; want %s, %v", b.size, ra, errA, rb, errB)
	}
	for l := range a.tiles {
		if len(a.tiles[l]) != len(b.tiles[l]) {
			t.Fatalf("size %d, level %d: %d hashes, want %d", b.size, l, len(a.tiles[l]), len(b.tiles[l]))
		}
		for i := range a.tiles[l] {
			if a.tiles[l][i] != b.tiles[l][i] {
				t.Fatalf("size %d, level %d: hash %d differs", b.size, l, i)
			}
		}
	}
}

// TestPaths follows the examples of C2SP tlog-tiles.
func TestPaths(t *testing.T) {
	for name, tile := range map[string]tlog.Tile{
		"tile/0/x001/x234/067":      {H: 8, L: 0, N: 1234067, W: 256},
		"tile/63/000.p/255":         {H: 8, L: 63, N: 0, W: 255},
		"tile/entries/273.p/112":    {H: 8, L: -1, N: 273, W: 112},
		"tile/entries/x001/000.p/1": {H: 8, L: -1, N: 1000, W: 1},
	} {
		if got := path(tile); got != name {
			t.Errorf("%v: %s, want %s", tile, got, name)
		}
		if got, err := parsePath(name); err != nil || got != tile {
			t.Errorf("%s: %v, %v, want %v", name, got, err, tile)
		}
	}
	for _, name := range []string{"", "tile", "tile/", "tile/8/0/000", "tile/0/0", "tile/0/0000", "tile/00/000", "tile/64/000", "tile/0/x000/001", "tile/0/000.p/0", "tile/0/000.p/256", "tile/0/000.p/08", "tile/data/000",
		"tile/-1/000", "tile/0/001/002", "tile/entries/000/", "/tile/0/000", "tile//0/000", "checkpoint", "tile/0/" + "x999/x999/x999/x999/x999/x999/999"} {
		if got, err := parsePath(name); err == nil && tileAt(got.L, got.N, 1<<40).W > 0 {
			t.Errorf("%q: %v, want it refused", name, got)
		}
	}
}

func TestEntriesAreExact(t *testing.T) {
	bundle, err := appendEntry(nil, []byte("one"))
	if err != nil {
		t.Fatal(err)
	}
	if bundle, err = appendEntry(bundle, nil); err != nil {
		t.Fatal(err)
	}
	if list, err := parseEntries(bundle, 2); err != nil || string(list[0]) != "one" || len(list[1]) != 0 {
		t.Errorf("%q, %v", list, err)
	}
	if _, err := appendEntry(nil, make([]byte, 65536)); err == nil {
		t.Error("an entry of 65536 bytes has no length")
	}
	for name, c := range map[string]struct {
		data  []byte
		width int
	}{
		"fewer": {bundle, 3}, "more": {bundle, 1}, "none": {nil, 1}, "half a length": {append(bundle[:len(bundle):len(bundle)], 0), 3}, "cut": {[]byte{0xff, 0xff, 1}, 1},
	} {
		if list, err := parseEntries(c.data, c.width); err == nil || list != nil {
			t.Errorf("%s: %q, %v, want it refused", name, list, err)
		}
	}
}
