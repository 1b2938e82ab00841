// Package memfs is a flat folder of files in memory, as self-checks and planted faults need it.
package memfs

import (
	"bytes"
	"io/fs"
	"maps"
	"slices"
	"time"
)

// FS holds the bytes of every file by its name; there are no folders but the one that they are in.
type FS map[string][]byte

// Open opens a file. It implements fs.FS.
func (f FS) Open(name string) (fs.File, error) {
	body, ok := f[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return file{bytes.NewReader(body), name}, nil
}

// ReadDir lists the files by name. It implements fs.ReadDirFS.
func (f FS) ReadDir(name string) ([]fs.DirEntry, error) {
	if name != "." {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
	}
	var list []fs.DirEntry
	for _, n := range slices.Sorted(maps.Keys(f)) {
		list = append(list, fs.FileInfoToDirEntry(file{bytes.NewReader(f[n]), n}))
	}
	return list, nil
}

// file is an open file and its own description.
type file struct {
	*bytes.Reader
	name string
}

func (f file) Stat() (fs.FileInfo, error) { return f, nil }
func (f file) Close() error               { return nil }
func (f file) Name() string               { return f.name }
func (f file) Mode() fs.FileMode          { return 0o444 }
func (f file) ModTime() time.Time         { return time.Time{} }
func (f file) IsDir() bool                { return false }
func (f file) Sys() any                   { return nil }
