package machine

import "golang.org/x/sys/unix"

// childrenHighWater is ru_maxrss of the children that ended so far, in bytes (getrusage(2): bytes on macOS).
func childrenHighWater() int64 {
	var ru unix.Rusage
	if unix.Getrusage(unix.RUSAGE_CHILDREN, &ru) != nil {
		return 0
	}
	return ru.Maxrss
}
