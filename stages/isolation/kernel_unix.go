//go:build unix

package isolation

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Kernel is the running kernel's name and release.
func Kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return runtime.GOOS
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
}
