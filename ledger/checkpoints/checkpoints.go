// Package checkpoints keeps signed checkpoints as files in a folder, outside
// the database that they vouch for.
//
// Each lies under the size of its tree, in decimal with 19 digits, for example
// "0000000000000000042"; "latest" is a copy of a recent one. Files are written
// whole or not at all, made durable before Put returns, and never replaced,
// except "latest". Other names that start with a dot are unfinished writes.
// Copy the folder, or single files, to wherever the log cannot reach: a copy
// that was out of reach is what makes a rewritten log show.
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
	"slices"
	"strconv"
	"strings"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/internal/durable"
)

const latest = "latest"

// Dir is a folder of checkpoints, a [ledger.Checkpoints]. It does not check
// signatures; the log does.
type Dir struct{ path string }

// Create makes the folder, which may exist if it is empty.
func Create(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
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
	return &Dir{path}, nil
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
	return &Dir{path}, nil
}

func (d *Dir) file(size int64) string { return filepath.Join(d.path, fmt.Sprintf("%019d", size)) }

// Sizes lists the tree sizes. A file that is neither a checkpoint by its name
// nor an unfinished write is an error: it may be one that somebody renamed.
func (d *Dir) Sizes(context.Context) ([]int64, error) {
	dir, err := os.Open(d.path)
	if err != nil {
		return nil, fmt.Errorf("checkpoints: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("checkpoints: %w", err)
	}
	var sizes []int64
	for _, name := range names {
		if name == latest || strings.HasPrefix(name, ".") {
			continue
		}
		size, err := strconv.ParseInt(name, 10, 64)
		if err != nil || size < 0 || filepath.Base(d.file(size)) != name {
			return nil, fmt.Errorf("checkpoints: %s is not named like a checkpoint, want a tree size of 19 digits; move it away or give it its name back", filepath.Join(d.path, name))
		}
		sizes = append(sizes, size)
	}
	slices.Sort(sizes)
	return sizes, nil
}

// At reads the checkpoint of one tree size.
func (d *Dir) At(_ context.Context, size int64) ([]byte, error) { return read(d.file(size)) }

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
	err := durable.Create(d.file(size), msg, 0o444)
	if errors.Is(err, fs.ErrExist) {
		kept, err := d.At(ctx, size)
		if err != nil {
			return err
		}
		if !bytes.Equal(kept, msg) {
			return fmt.Errorf("checkpoints: %s has other bytes: %w", d.file(size), ledger.ErrConflict)
		}
		// Whoever wrote it may not have made its name durable yet.
		if err := durable.SyncDir(d.path); err != nil {
			return fmt.Errorf("checkpoints: %w", err)
		}
	} else if err != nil {
		return fmt.Errorf("checkpoints: write %s: %w", d.file(size), err)
	}
	if old, err := d.Latest(ctx); err == nil && sizeLine(old) >= size {
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
