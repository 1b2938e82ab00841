package derive

import (
	"bytes"
	"cmp"
	"io/fs"
	"maps"
	"slices"
	"time"
)

// memory is a flat folder of files in memory.
type memory map[string][]byte

// Open implements fs.FS.
func (m memory) Open(name string) (fs.File, error) {
	body, ok := m[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return memoryFile{bytes.NewReader(body), name}, nil
}

// ReadDir implements fs.ReadDirFS for the one folder that there is.
func (m memory) ReadDir(name string) ([]fs.DirEntry, error) {
	if name != "." {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
	}
	var list []fs.DirEntry
	for _, n := range sortedNames(m) {
		list = append(list, fs.FileInfoToDirEntry(memoryFile{bytes.NewReader(m[n]), n}))
	}
	return list, nil
}

// memoryFile is an open file and its own description.
type memoryFile struct {
	*bytes.Reader
	name string
}

func (f memoryFile) Stat() (fs.FileInfo, error) { return f, nil }
func (f memoryFile) Close() error               { return nil }
func (f memoryFile) Name() string               { return f.name }
func (f memoryFile) Mode() fs.FileMode          { return 0o444 }
func (f memoryFile) ModTime() time.Time         { return time.Time{} }
func (f memoryFile) IsDir() bool                { return false }
func (f memoryFile) Sys() any                   { return nil }

func sortedNames[V any](m map[string]V) []string { return sortedKeys(m) }

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
