package mlx

import (
	"io"
	"io/fs"
	"testing/fstest"

	"github.com/weighmaster/weighmaster/kernels"
)

// view is a folder with faults laid over it; the folder itself is never written.
type view struct {
	fs.FS
	files   fstest.MapFS               // files in place of, or beside, the folder's
	patches map[string][]kernels.Patch // by file
}

func (v view) Open(name string) (fs.File, error) {
	if _, ok := v.files[name]; ok {
		return v.files.Open(name)
	}
	f, err := v.FS.Open(name)
	if err != nil || len(v.patches[name]) == 0 {
		return f, err
	}
	r, ok := f.(io.ReaderAt)
	if !ok {
		return f, nil
	}
	return patched{f, kernels.Overlay{R: r, Patches: v.patches[name]}}, nil
}

// ReadDir lists the folder's files and those beside them.
func (v view) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(v.FS, name)
	if err != nil || name != "." {
		return entries, err
	}
	more, err := v.files.ReadDir(".")
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
