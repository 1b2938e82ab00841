package stages

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels/digest"
)

// outputBuffer is the size of the write buffer, in bytes: large enough that the
// hash and the disk see long runs, small beside any memory bound.
const outputBuffer = 1 << 20

// Output makes one finished file below run.Dir. Name is slash-separated and
// relative; a folder in it is made. The bytes go to <name>.partial and are
// hashed while they are written; then the file is fsynced, made 0444, linked
// under its name and its folder is fsynced. So the name exists only with all
// of its bytes, and a file that is already there is never touched: that is an
// error that wraps [fs.ErrExist]. When write fails, the partial file stays as
// what it is, named .partial.
//
// The sums hold size and SHA-256; a git blob id needs the size before the first
// byte and is left empty.
func (r *Run) Output(name string, write func(w io.Writer) error) (File, error) {
	if !fs.ValidPath(name) || name == "." {
		return File{}, fmt.Errorf("output %q: got a name that is not relative and clean, want one below the stage's folder", name)
	}
	path := filepath.Join(r.Dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return File{}, fmt.Errorf("output %s: %w", name, err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return File{}, existing(path, err)
	}
	partial := path + ".partial"
	sums, err := writePartial(partial, write)
	if err != nil {
		return File{}, fmt.Errorf("output %s: %w", name, err)
	}
	if err := publish(partial, path); err != nil {
		return File{}, fmt.Errorf("output %s: %w", name, err)
	}
	return File{Name: name, Path: path, Sums: sums}, nil
}

// writePartial writes a new file, hashes what it writes and makes it durable and read-only.
func writePartial(partial string, write func(w io.Writer) error) (sums digest.Sums, err error) {
	f, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return digest.Sums{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	hasher := godigest.Canonical.Digester()
	count := &counter{}
	buffered := bufio.NewWriterSize(io.MultiWriter(f, hasher.Hash(), count), outputBuffer)
	if err := write(buffered); err != nil {
		return digest.Sums{}, err
	}
	if err := buffered.Flush(); err != nil {
		return digest.Sums{}, err
	}
	if err := f.Chmod(0o444); err != nil {
		return digest.Sums{}, err
	}
	if err := f.Sync(); err != nil {
		return digest.Sums{}, err
	}
	return digest.Sums{Size: count.n, SHA256: hasher.Digest()}, nil
}

// publish gives a durable partial file its name, never over another file, and
// makes the name durable. A hard link fails where the name exists, which a
// rename would not; file systems without links get the rename after a look.
func publish(partial, path string) error {
	err := os.Link(partial, path)
	switch {
	case err == nil:
		err = os.Remove(partial)
	case errors.Is(err, fs.ErrExist):
		return existing(path, nil)
	default:
		if _, look := os.Lstat(path); !errors.Is(look, fs.ErrNotExist) {
			return existing(path, look)
		}
		err = os.Rename(partial, path)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func existing(path string, err error) error {
	if err == nil {
		err = fs.ErrExist
	}
	return fmt.Errorf("%s: %w; a finished file is never written over: move it away or choose another name", path, err)
}

// counter counts bytes.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}
