package folder

import (
	"fmt"
	"io/fs"
	"os"
)

// Dir is a folder of the machine as [os.DirFS] gives it, but for what is neither a file nor
// a folder: a pipe has no end, and opening one waits for its other end for ever. Links are followed, as
// downloads lay them.
func Dir(path string) fs.FS { return dir{os.DirFS(path)} }

type dir struct{ fs.FS }

// Open opens a regular file or a folder.
func (d dir) Open(name string) (fs.File, error) {
	info, err := fs.Stat(d.FS, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("got %s, want a regular file", info.Mode().Type())}
	}
	return d.FS.Open(name)
}

// ReadDir lists a folder.
func (d dir) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(d.FS, name) }

// Stat describes a file without opening it.
func (d dir) Stat(name string) (fs.FileInfo, error) { return fs.Stat(d.FS, name) }
