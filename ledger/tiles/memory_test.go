package tiles

import (
	"bytes"
	"fmt"
	"io/fs"
	"runtime"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/mod/sumdb/tlog"
)

// virtual is a log of any size that takes no room: its files are made when they
// are opened. It watches the heap while it is read.
type virtual struct {
	t      *testing.T
	size   int64
	higher fstest.MapFS // tiles above level 0
	opened int
	peak   uint64
}

func entryOf(n int64) []byte { return fmt.Appendf(nil, "entry %d", n) }

func (v *virtual) Open(name string) (fs.File, error) {
	if v.opened++; v.opened%32 == 0 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		v.peak = max(v.peak, m.HeapAlloc)
	}
	t, err := parsePath(name)
	if err != nil || t.L > 0 {
		return v.higher.Open(name)
	}
	var data []byte
	for n := t.N * width; n < t.N*width+int64(t.W) && n < v.size; n++ {
		if t.L == 0 {
			data = appendHashes(data, []tlog.Hash{tlog.RecordHash(entryOf(n))})
		} else if data, err = appendEntry(data, entryOf(n)); err != nil {
			return nil, err
		}
	}
	return &virtualFile{bytes.NewReader(data)}, nil
}

type virtualFile struct{ *bytes.Reader }

func (f *virtualFile) Close() error               { return nil }
func (f *virtualFile) Stat() (fs.FileInfo, error) { return f, nil }
func (f *virtualFile) Name() string               { return "" }
func (f *virtualFile) Size() int64                { return f.Reader.Size() }
func (f *virtualFile) Mode() fs.FileMode          { return 0o444 }
func (f *virtualFile) ModTime() time.Time         { return time.Time{} }
func (f *virtualFile) IsDir() bool                { return false }
func (f *virtualFile) Sys() any                   { return nil }

// TestMemoryIsFlat verifies a log and one sixteen times as large.
func TestMemoryIsFlat(t *testing.T) {
	var peaks []uint64
	for _, size := range []int64{1 << 14, 1 << 18} {
		v := &virtual{t: t, size: size, higher: fstest.MapFS{}}
		var e edge
		put := func(t tlog.Tile, hashes []tlog.Hash) error {
			if t.L > 0 {
				v.higher[path(t)] = &fstest.MapFile{Data: appendHashes(nil, hashes)}
			}
			return nil
		}
		for n := range size {
			if err := e.push(tlog.RecordHash(entryOf(n)), put); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.partial(put); err != nil {
			t.Fatal(err)
		}
		root, err := e.root()
		if err != nil {
			t.Fatal(err)
		}
		res, err := VerifyTree(t.Context(), v, tlog.Tree{N: size, Hash: root})
		if err != nil || !res.OK() || v.peak == 0 {
			t.Fatalf("%+v, %v", res, err)
		}
		peaks = append(peaks, v.peak)
	}
	t.Logf("heap while verifying 2^14 and 2^18 entries: %d and %d bytes", peaks[0], peaks[1])
	if peaks[1] > peaks[0]+4<<20 {
		t.Errorf("the heap grows from %d to %d bytes", peaks[0], peaks[1])
	}
}
