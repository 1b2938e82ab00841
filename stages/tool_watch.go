package stages

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"
)

// watched remembers what stood on disk before it was hashed. A file that was
// swapped, and even one that was swapped back, has another inode or another
// time of change, which no call sets: only the machine's clock does.
type watched map[string]stamp

// settled is longer than a tick of any file system's clock: what changes later
// than that after its last change has another time of change.
const settled = 50 * time.Millisecond

// maxWatched bounds the files that one command's inputs may have.
const maxWatched = 2_000_000

// add remembers a path, what it leads to, and all below it. What was changed a
// moment ago is waited for, so that a later change shows.
func (w watched) add(path string) error {
	var newest int64
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
			newest = max(newest, w[path].at())
			return err
		})
		if err != nil {
			return err
		}
	}
	if age := time.Since(time.Unix(0, newest)); age >= 0 && age < settled {
		time.Sleep(settled - age)
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
