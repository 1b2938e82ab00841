//go:build unix

package stages

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// stamp is what tells one state of a file from another without reading it.
type stamp struct {
	device, inode, size, mode uint64
	modified, changed         int64 // nanoseconds since 1970
}

func stampOf(path string) (stamp, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return stamp{}, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	return stamp{uint64(st.Dev), st.Ino, uint64(st.Size), uint64(st.Mode), st.Mtim.Nano(), st.Ctim.Nano()}, nil
}

// at is the last change, in nanoseconds since 1970.
func (s stamp) at() int64 { return s.changed }
