package folder

import (
	"io"
	"io/fs"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/memfs"
)

// View is a folder with faults laid over it; the folder itself is never written.
type View struct {
	fs.FS
	Files   memfs.FS                   // in place of the folder's files, or beside them
	Patches map[string][]kernels.Patch // by file
}

// Open opens a file of the view.
func (v View) Open(name string) (fs.File, error) {
	if _, ok := v.Files[name]; ok {
		return v.Files.Open(name)
	}
	f, err := v.FS.Open(name)
	if err != nil || len(v.Patches[name]) == 0 {
		return f, err
	}
	r, ok := f.(io.ReaderAt)
	if !ok {
		return f, nil
	}
	return patched{f, kernels.Overlay{R: r, Patches: v.Patches[name]}}, nil
}

// ReadDir lists the folder's files and those beside them.
func (v View) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(v.FS, name)
	if err != nil || name != "." {
		return entries, err
	}
	more, err := v.Files.ReadDir(".")
	have := map[string]bool{}
	for _, e := range entries {
		have[e.Name()] = true
	}
	for _, e := range more {
		if !have[e.Name()] {
			entries = append(entries, e)
		}
	}
	return entries, err
}

type patched struct {
	fs.File
	io.ReaderAt
}
