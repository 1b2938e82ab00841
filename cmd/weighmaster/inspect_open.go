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

// openParts opens a file or, given any part of a split model, all of its parts
// that lie beside it: the reader names those that are missing.
func openParts(path string) ([]gguf.Part, closers, error) {
	names := gguf.PartNames(path)
	if names == nil {
		names = []string{path}
	}
	var parts []gguf.Part
	var files closers
	for _, name := range names {
		file, size, err := openRegular(name)
		if errors.Is(err, fs.ErrNotExist) && name != path {
			continue
		}
		if err != nil {
			return nil, nil, errors.Join(err, files.Close())
		}
		files = append(files, file)
		parts = append(parts, gguf.Part{Name: filepath.Base(name), R: file, Size: size})
	}
	return parts, files, nil
}

// openGGUF opens a file, or a split model by any of its parts. The files stay
// open until the closer is called.
func openGGUF(path string) (*gguf.File, io.Closer, error) {
	parts, files, err := openParts(path)
	if err != nil {
		return nil, nil, err
	}
	var f *gguf.File
	if gguf.PartNames(path) == nil {
		f, err = gguf.Open(parts[0].R, parts[0].Size)
	} else {
		f, err = gguf.OpenSplit(parts)
	}
	if err != nil {
		return nil, nil, errors.Join(err, files.Close())
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
