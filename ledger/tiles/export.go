package tiles

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/errgroup"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/internal/durable"
)

// Result says what an export wrote.
type Result struct {
	Size     int64     // entries that the folder's checkpoint signs
	Root     tlog.Hash // and their root
	Previous int64     // entries that the folder had; -1 if it was new
	Files    int       // files written, without the checkpoint
}

// Export writes the log up to its newest checkpoint into a folder, which may
// hold an earlier export of it: then only what came after is read and written.
// Every tile is computed from the leaves and compared with the stored nodes, and
// the root with the signed one, before the checkpoint is replaced: an error
// leaves the folder's checkpoint as it was. *[ledger.Contradiction] when the log
// does not extend the checkpoint that lies in the folder.
func Export(ctx context.Context, log *ledger.Log, folder string) (Result, error) {
	checkpoint, err := log.Checkpoint(ctx)
	if err != nil {
		return Result{}, err
	}
	c, err := log.Extends(ctx, checkpoint)
	if err != nil {
		return Result{}, err
	}
	old, previous, err := begin(ctx, log, folder)
	if err != nil {
		return Result{}, err
	}
	res := Result{Size: c.Size, Root: c.Root, Previous: previous}
	if previous > c.Size {
		return Result{}, fmt.Errorf("tiles: the folder %s has a checkpoint of %d entries already and the newest one here has %d; nothing was written", folder, previous, c.Size)
	}
	w := &writer{folder: filepath.Clean(folder), nodes: log.Nodes(ctx), ready: map[string]bool{}}
	w.writes.SetLimit(parallel)
	if previous < c.Size {
		err := w.tiles(ctx, log, max(previous, 0), c)
		if err := errors.Join(err, w.writes.Wait()); err != nil {
			return Result{}, err
		}
	}
	res.Files = int(w.files.Load())
	if bytes.Equal(old, checkpoint) {
		return res, nil
	}
	if err := durable.Replace(filepath.Join(folder, checkpointFile), checkpoint, 0o444); err != nil {
		return Result{}, fmt.Errorf("tiles: %w", err)
	}
	return res, nil
}

// begin makes or opens the folder and returns the checkpoint in it, if any, and
// its size, or -1.
func begin(ctx context.Context, log *ledger.Log, folder string) ([]byte, int64, error) {
	if err := durable.MkdirAll(folder, 0o755); err != nil {
		return nil, 0, fmt.Errorf("tiles: %w", err)
	}
	old, err := read(os.DirFS(folder), checkpointFile, ledger.MaxCheckpointBytes)
	if errors.Is(err, fs.ErrNotExist) {
		names, err := os.ReadDir(folder)
		if err != nil {
			return nil, 0, fmt.Errorf("tiles: %w", err)
		}
		for _, n := range names {
			// An export that was interrupted has tiles and no checkpoint yet.
			if n.Name() != "tile" && !durable.Unfinished(n.Name()) {
				return nil, 0, fmt.Errorf("tiles: the folder %s is not empty (%s) and no exported log; choose another one", folder, n.Name())
			}
		}
		return nil, -1, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("tiles: %w", err)
	}
	c, err := log.Extends(ctx, old)
	if err != nil {
		return nil, 0, fmt.Errorf("tiles: the checkpoint in %s: %w", folder, err)
	}
	return old, c.Size, nil
}

// writer writes tiles into a folder.
type writer struct {
	folder string
	nodes  tlog.HashReader
	writes errgroup.Group // each waits for the disk, so that many at once take little longer than one
	files  atomic.Int64

	mu    sync.Mutex
	ready map[string]bool // folders whose names are durable
}

// parallel bounds the files that are being written at a time.
const parallel = 16

// tiles writes everything that the tree of c has and the tree of the first size
// entries has not.
func (w *writer) tiles(ctx context.Context, log *ledger.Log, size int64, c ledger.Checkpoint) error {
	size -= size % width // the tile that was partial is written anew, under a new name
	e, err := edgeAt(size, w.nodes)
	if err != nil {
		return err
	}
	var bundle []byte
	for leaf, err := range log.Leaves(ctx, ledger.LeafIndex(size), ledger.LeafIndex(c.Size)) {
		if err != nil {
			return err
		}
		if bundle, err = appendEntry(bundle, leaf); err != nil {
			return err
		}
		if err := e.push(tlog.RecordHash(leaf), w.hashes); err != nil {
			return err
		}
		if e.size%width == 0 || e.size == c.Size {
			w.write(path(tileAt(entriesLevel, (e.size-1)/width, e.size)), bundle)
			bundle = nil // the writer's now
		}
	}
	if err := e.partial(w.hashes); err != nil {
		return err
	}
	root, err := e.root()
	if err != nil {
		return fmt.Errorf("tiles: root of %d entries: %w", c.Size, err)
	}
	if root != c.Root {
		return &ledger.EntryError{Finding: ledger.Finding{Check: ledger.CheckRoot, Where: fmt.Sprintf("tree of %d entries", c.Size), Got: root.String() + " from the leaves", Want: c.Root.String() + " as signed"}}
	}
	return nil
}

// hashes compares a tile with the stored nodes and writes it.
func (w *writer) hashes(t tlog.Tile, hashes []tlog.Hash) error {
	stored, err := w.nodes.ReadHashes(nodesOf(t))
	if err != nil {
		return fmt.Errorf("tiles: nodes of %s: %w", path(t), err)
	}
	for i, h := range hashes {
		if stored[i] != h {
			return &ledger.EntryError{Finding: ledger.Finding{Check: ledger.CheckNodes, Where: fmt.Sprintf("node %d at level %d", t.N*width+int64(i), t.L*height), Got: stored[i].String(), Want: h.String() + " from the leaves"}}
		}
	}
	w.write(path(t), appendHashes(nil, hashes))
	return nil
}

// write begins to write a file; writes.Wait tells whether it was.
func (w *writer) write(name string, data []byte) {
	w.writes.Go(func() error { return w.file(name, data) })
}

// file writes a file that never changes again.
func (w *writer) file(name string, data []byte) error {
	file := filepath.Join(w.folder, filepath.FromSlash(name))
	if err := w.prepare(filepath.Dir(file)); err != nil {
		return fmt.Errorf("tiles: %w", err)
	}
	err := durable.Create(file, data, 0o444)
	if err == nil {
		w.files.Add(1)
		return nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("tiles: write %s: %w", file, err)
	}
	there, err := read(os.DirFS(w.folder), name, len(data))
	if err != nil {
		return fmt.Errorf("tiles: %s: %w", file, err)
	}
	if !bytes.Equal(there, data) {
		return fmt.Errorf("tiles: %s is there with other bytes (%d, want %d): it was altered, or is of another log; export into an empty folder", file, len(there), len(data))
	}
	// Whoever wrote it may have died before its name was durable.
	if err := durable.SyncDir(filepath.Dir(file)); err != nil {
		return fmt.Errorf("tiles: %w", err)
	}
	return nil
}

// prepare makes a folder below the exported one, once. Another process that made
// it, or one above it, may have died before the name was durable.
func (w *writer) prepare(dir string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ready[dir] {
		return nil
	}
	if err := durable.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for d := dir; d != w.folder && len(d) > len(w.folder); d = filepath.Dir(d) {
		if w.ready[d] {
			break
		}
		if err := durable.SyncDir(filepath.Dir(d)); err != nil {
			return err
		}
		w.ready[d] = true
	}
	return nil
}
