package tiles

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// errTooLong says that a file has more bytes than it can have.
var errTooLong = errors.New("too long")

// read reads a file of at most limit bytes, without trusting its size.
func read(fsys fs.FS, name string, limit int) ([]byte, error) {
	// Before opening: a pipe would never open.
	if info, err := fs.Stat(fsys, name); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(data) > limit {
		return nil, fmt.Errorf("%s: %w, want at most %d bytes", name, errTooLong, limit)
	}
	return data, nil
}
