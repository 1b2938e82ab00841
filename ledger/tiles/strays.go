package tiles

import (
	"bytes"
	"fmt"
	"io/fs"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger/internal/durable"
)

// strays goes through all files of the folder: each must be the checkpoint, a
// tile of the tree, or a tile of a smaller tree that the tile of the tree begins
// with. Tiles of a larger tree, which an export writes before the checkpoint
// that signs them, are counted and not believed.
func (r *reader) strays() error {
	if len(r.v.Findings) > 0 {
		return nil // what the tree is made of is wrong already
	}
	err := fs.WalkDir(r.folder, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || r.v.Truncated {
			return err
		}
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if d.IsDir() || name == checkpointFile || durable.Unfinished(d.Name()) {
			return nil
		}
		return r.stray(name, d)
	})
	if err != nil {
		return fmt.Errorf("tiles: %w", err)
	}
	return nil
}

func (r *reader) stray(name string, d fs.DirEntry) error {
	t, err := parsePath(name)
	if err != nil || !d.Type().IsRegular() {
		r.v.add(CheckStray, name, "a file that is none of the log's", "no such file")
		return nil
	}
	in := tileAt(t.L, t.N, r.size)
	switch {
	case t.W > in.W:
		r.v.Ahead++
		return nil
	case t.W == in.W:
		return nil // checked with the tree
	}
	limit := width * tlog.HashSize
	if t.L == entriesLevel {
		limit = maxBundleBytes
	}
	part, err := read(r.folder, name, limit)
	if err != nil {
		return err
	}
	whole, err := read(r.folder, path(in), limit)
	if err != nil {
		return err
	}
	r.v.Files++
	if !bytes.Equal(part, first(whole, in, t.W)) {
		r.v.add(CheckTile, name, "other bytes", "what "+path(in)+" begins with")
	}
	return nil
}
