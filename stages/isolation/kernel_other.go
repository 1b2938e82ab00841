//go:build !unix

package isolation

import "runtime"

// Kernel is the running kernel's name.
func Kernel() string { return runtime.GOOS }
