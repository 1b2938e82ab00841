//go:build !unix

package isolation

import (
	"strconv"
	"syscall"
)

func errnoName(e syscall.Errno) string { return "error " + strconv.Itoa(int(e)) }
