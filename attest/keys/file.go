package keys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteNew writes a key file that only its owner can read (0600). It never
// replaces a file, and leaves a whole file or none.
func WriteNew(path string, doc []byte) error {
	return write(path, doc, 0o600)
}

// WriteNewPublic writes a public key file (0644) in the same way.
func WriteNewPublic(path string, doc []byte) error {
	return write(path, doc, 0o644)
}

func write(path string, doc []byte, mode fs.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".key-*")
	if err != nil {
		return fmt.Errorf("key file %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, ignoreMissing(os.Remove(f.Name()))) }()
	_, werr := f.Write(doc)
	if err := errors.Join(werr, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("key file %s: %w", path, err)
	}
	// A link, unlike a rename, fails when the name is taken.
	if err := os.Link(f.Name(), path); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("key file %s: it exists; choose another name or move it away, keys are never overwritten", path)
		}
		return fmt.Errorf("key file %s: %w", path, err)
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
