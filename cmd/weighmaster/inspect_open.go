package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// closers closes several files.
type closers []io.Closer

func (c closers) Close() error {
	var errs []error
	for _, f := range c {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// openGGUF opens a file, or a split model by any of its parts: the others are
// looked for beside it. The files stay open until the closer is called.
func openGGUF(path string) (*gguf.File, io.Closer, error) {
	names := gguf.PartNames(path)
	if names == nil {
		names = []string{path}
	}
	var parts []gguf.Part
	var files closers
	fail := func(err error) (*gguf.File, io.Closer, error) {
		return nil, nil, errors.Join(err, files.Close())
	}
	for _, name := range names {
		file, size, err := openRegular(name)
		if errors.Is(err, fs.ErrNotExist) && name != path {
			continue // the reader names the parts that are missing
		}
		if err != nil {
			return fail(err)
		}
		files = append(files, file)
		parts = append(parts, gguf.Part{Name: filepath.Base(name), R: file, Size: size})
	}
	if len(names) == 1 {
		f, err := gguf.Open(parts[0].R, parts[0].Size)
		if err != nil {
			return fail(err)
		}
		return f, files, nil
	}
	f, err := gguf.OpenSplit(parts)
	if err != nil {
		return fail(err)
	}
	return f, files, nil
}

// openRegular opens a regular file: a pipe has no size and would never end.
func openRegular(path string) (*os.File, int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s: got %s, want a regular file", path, info.Mode().Type())
	}
	file, err := os.Open(path)
	return file, info.Size(), err
}
