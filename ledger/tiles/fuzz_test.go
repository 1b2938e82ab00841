package tiles

import (
	"bytes"
	"testing"
	"testing/fstest"

	"golang.org/x/mod/sumdb/tlog"
)

// FuzzEntries: what parses is exactly what is written from it.
func FuzzEntries(f *testing.F) {
	f.Add([]byte("\x00\x03one\x00\x00"), 2)
	f.Add([]byte("\xff\xff"), 1)
	f.Add([]byte{}, 0)
	f.Add(bytes.Repeat([]byte{0}, 512), 256)
	f.Fuzz(func(t *testing.T, data []byte, w int) {
		if w < 0 || w > width {
			return
		}
		list, err := parseEntries(data, w)
		if err != nil {
			return
		}
		var again []byte
		for _, e := range list {
			if again, err = appendEntry(again, e); err != nil {
				t.Fatal(err)
			}
		}
		if len(list) != w || !bytes.Equal(again, data) {
			t.Errorf("%d entries of %d, and other bytes when written", len(list), w)
		}
	})
}

// FuzzPath: what parses is exactly what is written from it.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"tile/0/000", "tile/entries/x001/x234/067.p/3", "tile/8/0/000", "tile/0/x999/x999/x999/x999/x999/x999/x999/999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		tile, err := parsePath(name)
		if err == nil && path(tile) != name {
			t.Errorf("%q is read as %v, which is %q", name, tile, path(tile))
		}
		tileAt(tile.L, tile.N, 1<<40)
	})
}

// FuzzFolder puts other bytes in the place of one file of a small log. Nothing
// but the bytes that were there verifies.
func FuzzFolder(f *testing.F) {
	honest := fstest.MapFS{}
	var e edge
	var bundle []byte
	put := func(t tlog.Tile, hashes []tlog.Hash) error {
		honest[path(t)] = &fstest.MapFile{Data: appendHashes(nil, hashes)}
		return nil
	}
	for n := range 300 {
		entry := []byte{byte(n), byte(n >> 8)}
		var err error
		if bundle, err = appendEntry(bundle, entry); err != nil {
			f.Fatal(err)
		}
		if err := e.push(tlog.RecordHash(entry), put); err != nil {
			f.Fatal(err)
		}
		if n == 255 || n == 299 {
			honest[path(tileAt(entriesLevel, int64(n/width), int64(n+1)))] = &fstest.MapFile{Data: bundle}
			bundle = nil
		}
	}
	if err := e.partial(put); err != nil {
		f.Fatal(err)
	}
	root, err := e.root()
	if err != nil {
		f.Fatal(err)
	}
	names := []string{"tile/0/000", "tile/0/001.p/44", "tile/1/000.p/1", "tile/entries/000", "tile/entries/001.p/44"}
	if len(honest) != len(names) {
		f.Fatalf("%d files, want %d", len(honest), len(names))
	}
	for i, name := range names {
		f.Add(byte(i), honest[name].Data)
		f.Add(byte(i), honest[name].Data[:len(honest[name].Data)/2])
		f.Add(byte(i), []byte{})
	}
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		name := names[int(which)%len(names)]
		folder := fstest.MapFS{}
		for n, file := range honest {
			folder[n] = file
		}
		folder[name] = &fstest.MapFile{Data: data}
		v, err := VerifyTree(t.Context(), folder, tlog.Tree{N: 300, Hash: root})
		if err != nil {
			t.Fatal(err)
		}
		if same := bytes.Equal(data, honest[name].Data); v.OK() != same {
			t.Errorf("%s: accepted %v, the bytes that were there: %v", name, v.OK(), same)
		}
	})
}
