// Package durable writes files so that they are there as a whole or not at
// all, also after a loss of power.
package durable

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// tempPrefix begins the name of every file that is not finished. Readers of a
// folder skip such names.
const tempPrefix = ".unfinished-"

// Unfinished says whether a file name is one of a write that never ended.
func Unfinished(name string) bool { return strings.HasPrefix(name, tempPrefix) }

// Replace writes data to path, in place of what is there: a temporary file in
// the same folder, fsync, rename, fsync of the folder.
func Replace(path string, data []byte, perm fs.FileMode) error {
	f, err := NewTemp(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.finish(path, perm, system.Rename)
}

// Create writes data to a path that must not exist (fs.ErrExist: nothing is
// changed, and the name of what is there is durable).
func Create(path string, data []byte, perm fs.FileMode) error {
	f, err := NewTemp(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Create(path, perm)
}

// Temp is a file that is not finished.
type Temp struct {
	file File
	name string
}

// NewTemp starts a file in a folder. The caller defers Discard.
func NewTemp(dir string) (*Temp, error) {
	name := filepath.Join(dir, tempPrefix+rand.Text())
	f, err := system.Create(name, 0o600)
	if err != nil {
		return nil, err
	}
	return &Temp{f, name}, nil
}

var _ io.Writer = (*Temp)(nil)

func (t *Temp) Write(p []byte) (int, error) { return t.file.Write(p) }

// Create gives the finished file its name, which must be free (fs.ErrExist: the
// name of what is there is durable).
func (t *Temp) Create(path string, perm fs.FileMode) error {
	// A hard link fails when the name is taken, a rename would replace it.
	return t.finish(path, perm, func(old, new string) error {
		err := system.Link(old, new)
		if err == nil || errors.Is(err, fs.ErrExist) {
			return err
		}
		return linkless(old, new, err)
	})
}

// linkless serves file systems without hard links. Two writers that race there
// can replace one another, with bytes of the same content or by the same key.
func linkless(old, new string, cause error) error {
	if _, err := os.Lstat(new); err == nil {
		return &fs.PathError{Op: "create", Path: new, Err: fs.ErrExist}
	}
	if err := system.Rename(old, new); err != nil {
		return errors.Join(cause, err)
	}
	return nil
}

func (t *Temp) finish(path string, perm fs.FileMode, name func(old, new string) error) error {
	if err := t.file.Chmod(perm); err != nil {
		return err
	}
	if err := t.file.Sync(); err != nil {
		return fmt.Errorf("fsync of %s: %w", t.name, err)
	}
	if err := t.file.Close(); err != nil {
		return err
	}
	err := name(t.name, path)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// Also the name that was taken: who made it may have died before it was
	// durable, or been told that the disk failed.
	if err := SyncDir(filepath.Dir(path)); err != nil {
		return err
	}
	return err
}

// Discard removes what was not finished.
func (t *Temp) Discard() {
	t.file.Close()
	system.Remove(t.name)
}

// MkdirAll makes a folder and those above it that are missing, and makes the
// names durable, also that of a folder that was there: who made it may have
// died before, or been told that the disk failed.
func MkdirAll(path string, perm fs.FileMode) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.IsDir():
		return &fs.PathError{Op: "mkdir", Path: path, Err: errors.New("a file is in the way")}
	case err != nil:
		if parent := filepath.Dir(path); parent != path {
			if err := MkdirAll(parent, perm); err != nil {
				return err
			}
		}
		if err := system.Mkdir(path, perm); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return SyncDir(filepath.Dir(path))
}
