package stages

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
)

// watched remembers what stood on disk before it was hashed. A file that was
// swapped, and even one that was swapped back, has another inode or another
// time of change, which no call sets: only the machine's clock does.
type watched map[string]stamp

// maxWatched bounds the files that one command's inputs may have.
const maxWatched = 2_000_000

// add remembers a path, what it leads to, and all below it.
func (w watched) add(path string) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	for _, start := range slices.Compact([]string{filepath.Clean(path), real}) {
		if _, known := w[start]; known {
			continue
		}
		err := filepath.WalkDir(start, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if len(w) >= maxWatched {
				return fmt.Errorf("%s: more than %d files go into one command", start, maxWatched)
			}
			w[path], err = stampOf(path)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// changed names the first file that is not what it was.
func (w watched) changed() error {
	for _, path := range sortedKeys(w) {
		now, err := stampOf(path)
		if err != nil {
			return fmt.Errorf("%s was there before the command ran: %w", path, err)
		}
		if now != w[path] {
			return fmt.Errorf("%s was touched while the command ran, after it had been hashed", path)
		}
	}
	return nil
}
