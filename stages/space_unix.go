//go:build linux || darwin || freebsd

package stages

import "golang.org/x/sys/unix"

// freeBytes is what an ordinary user can still write where dir is.
func freeBytes(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return uint64(st.Bavail) * uint64(st.Bsize), nil
}
