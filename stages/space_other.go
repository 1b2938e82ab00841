//go:build !(linux || darwin || freebsd)

package stages

import "errors"

func freeBytes(string) (uint64, error) { return 0, errors.ErrUnsupported }
