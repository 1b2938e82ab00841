package durable

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
)

// FS is the file system that this package writes through.
type FS interface {
	// Create makes an empty file; fs.ErrExist if the name is taken.
	Create(path string, perm fs.FileMode) (File, error)
	Link(old, new string) error
	Rename(old, new string) error
	Remove(path string) error
	Mkdir(path string, perm fs.FileMode) error
	// SyncDir makes the names in a folder durable.
	SyncDir(dir string) error
}

// File is a file that is being written.
type File interface {
	io.Writer
	Chmod(perm fs.FileMode) error
	Sync() error
	Close() error
}

// OS is the file system of the machine.
var OS FS = machine{}

var system = OS

// Use puts another file system in place until restore is called. Only fault
// tests do so, while nothing is being written.
func Use(other FS) (restore func()) {
	old := system
	system = other
	return func() { system = old }
}

type machine struct{}

func (machine) Create(path string, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return nil, err // not a File that holds a nil pointer
	}
	return f, nil
}

func (machine) Link(old, new string) error                { return os.Link(old, new) }
func (machine) Rename(old, new string) error              { return os.Rename(old, new) }
func (machine) Remove(path string) error                  { return os.Remove(path) }
func (machine) Mkdir(path string, perm fs.FileMode) error { return os.Mkdir(path, perm) }

func (machine) SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // folders cannot be synced there
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("fsync of the folder %s: %w", dir, err)
	}
	return nil
}

// SyncDir makes the names in a folder durable.
func SyncDir(dir string) error { return system.SyncDir(dir) }

// Touch makes an empty file (fs.ErrExist). Its name is durable after a SyncDir
// of its folder.
func Touch(path string, perm fs.FileMode) error {
	f, err := system.Create(path, perm)
	if err != nil {
		return err
	}
	return f.Close()
}
