package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// stamp is what shows that a file was written to.
type stamp struct {
	size int64
	time time.Time
}

// steady remembers the files of both sides, so that an answer about files that were written to
// meanwhile is not given: bytes are read more than once.
type steady map[string]stamp

// stamps describes the file at a path, or those at the root of a folder; of a split model, all parts.
func stamps(paths ...string) (steady, error) {
	s := steady{}
	for _, path := range paths {
		names := gguf.PartNames(path)
		if entries, err := os.ReadDir(path); err == nil {
			names = nil
			for _, e := range entries {
				names = append(names, filepath.Join(path, e.Name()))
			}
		} else if names == nil {
			names = []string{path}
		}
		for _, name := range names {
			info, err := os.Stat(name)
			if os.IsNotExist(err) {
				continue // a missing part, or a link to nowhere
			}
			if err != nil {
				return nil, err
			}
			s[name] = stamp{info.Size(), info.ModTime()}
		}
	}
	return s, nil
}

// check compares with what stands there now.
func (s steady) check(paths ...string) error {
	now, err := stamps(paths...)
	if err != nil {
		return err
	}
	if maps.Equal(s, now) {
		return nil
	}
	for name, was := range s {
		if now[name] != was {
			return fmt.Errorf("%s: was written to while it was read, want a file that stays as it is; compare again", name)
		}
	}
	return fmt.Errorf("%v: got new files while they were read, want folders that stay as they are; compare again", paths)
}
