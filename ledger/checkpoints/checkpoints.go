// Package checkpoints keeps signed checkpoints as files in a folder, outside
// the database that they vouch for.
//
// Each lies under the size of its tree, in decimal with 19 digits, in folders
// that repeat the first 13 and the next 3 of them, for example
// "0000000000000/042/0000000000000042123"; no folder has more than a thousand
// checkpoints. "latest" is a copy of a recent one. Files are written whole or
// not at all, made durable before Put returns, and never replaced, except
// "latest", and a checkpoint by itself with more signatures. Other names that
// start with a dot are unfinished writes. Copy the folder, or single files, to
// wherever the log cannot reach: a copy that was out of reach is what makes a
// rewritten log show.
package checkpoints

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/internal/durable"
)

const latest = "latest"

// Dir is a folder of checkpoints, a [ledger.Checkpoints]. It does not check
// signatures; the log does.
type Dir struct {
	path string

	mu    sync.Mutex
	ready string // folder whose name is known to be durable
}

// Create makes the folder, which may exist if it is empty.
func Create(path string) (*Dir, error) {
	if err := durable.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("checkpoints: %w", err)
	}
	names, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("checkpoints: %w", err)
	}
	if len(names) > 0 {
		return nil, fmt.Errorf("checkpoints: the folder %s is not empty (%s); choose another one or open the log that it belongs to", path, names[0].Name())
	}
	if err := durable.SyncDir(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("checkpoints: %w", err)
	}
	return &Dir{path: path}, nil
}

// Open opens a folder that exists.
func Open(path string) (*Dir, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("checkpoints: %w; restore the folder, without it the log cannot be checked", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("checkpoints: %s is not a folder", path)
	}
	return &Dir{path: path}, nil
}

// File is the path of the checkpoint of one tree size.
func (d *Dir) File(size int64) string {
	name := fmt.Sprintf("%019d", size)
	return filepath.Join(d.path, name[:high], name[high:high+middle], name)
}

// At reads the checkpoint of one tree size.
func (d *Dir) At(_ context.Context, size int64) ([]byte, error) { return read(d.File(size)) }

// Latest reads the copy of a recent checkpoint.
func (d *Dir) Latest(context.Context) ([]byte, error) { return read(filepath.Join(d.path, latest)) }

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("checkpoints: %s: %w", path, ledger.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoints: %w", err)
	}
	defer f.Close()
	msg, err := io.ReadAll(io.LimitReader(f, ledger.MaxCheckpointBytes+1))
	if err != nil {
		return nil, fmt.Errorf("checkpoints: read %s: %w", path, err)
	}
	return msg, nil
}

// Put writes the checkpoint under its size, then renews "latest" unless that
// is newer already. Two processes that race can leave the older of their two
// in "latest"; both lie under their sizes.
func (d *Dir) Put(ctx context.Context, size int64, msg []byte) error {
	if size < 0 {
		return fmt.Errorf("checkpoints: size %d, want 0 or more", size)
	}
	if err := d.prepare(filepath.Dir(d.File(size))); err != nil {
		return fmt.Errorf("checkpoints: %w", err)
	}
	err := durable.Create(d.File(size), msg, 0o444)
	if errors.Is(err, fs.ErrExist) {
		kept, err := d.At(ctx, size)
		if err != nil {
			return err
		}
		if !bytes.Equal(kept, msg) {
			return fmt.Errorf("checkpoints: %s has other bytes: %w", d.File(size), ledger.ErrConflict)
		}
		// Whoever wrote it may not have made its name durable yet.
		if err := durable.SyncDir(filepath.Dir(d.File(size))); err != nil {
			return fmt.Errorf("checkpoints: %w", err)
		}
	} else if err != nil {
		return fmt.Errorf("checkpoints: write %s: %w", d.File(size), err)
	}
	if old, err := d.Latest(ctx); err == nil && sizeLine(old) >= size {
		return nil
	}
	if err := durable.Replace(filepath.Join(d.path, latest), msg, 0o444); err != nil {
		return fmt.Errorf("checkpoints: write %s: %w", filepath.Join(d.path, latest), err)
	}
	return nil
}

// prepare makes the folder of a checkpoint. Another process that made it may
// have died before the name was durable, so this one sees to it once.
func (d *Dir) prepare(folder string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ready == folder {
		return nil
	}
	if err := durable.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, dir := range []string{filepath.Dir(folder), d.path} {
		if err := durable.SyncDir(dir); err != nil {
			return err
		}
	}
	d.ready = folder
	return nil
}

// Replace writes msg in the place of the checkpoint of a size if that has the
// bytes old, and of "latest" if that has the size. Nothing but the caller's
// comparison of texts tells a cosigned checkpoint from another.
func (d *Dir) Replace(ctx context.Context, size int64, old, msg []byte) error {
	kept, err := d.At(ctx, size)
	if err != nil {
		return err
	}
	if !bytes.Equal(kept, old) {
		return fmt.Errorf("checkpoints: %s has other bytes: %w", d.File(size), ledger.ErrConflict)
	}
	if err := durable.Replace(d.File(size), msg, 0o444); err != nil {
		return fmt.Errorf("checkpoints: write %s: %w", d.File(size), err)
	}
	if newest, err := d.Latest(ctx); err == nil && sizeLine(newest) != size {
		return nil
	}
	if err := durable.Replace(filepath.Join(d.path, latest), msg, 0o444); err != nil {
		return fmt.Errorf("checkpoints: write %s: %w", filepath.Join(d.path, latest), err)
	}
	return nil
}

// sizeLine reads the size of a note without trusting it; -1 if it has none.
func sizeLine(msg []byte) int64 {
	lines := bytes.SplitN(msg, []byte("\n"), 3)
	if len(lines) < 3 {
		return -1
	}
	size, err := strconv.ParseInt(string(lines[1]), 10, 64)
	if err != nil {
		return -1
	}
	return size
}
