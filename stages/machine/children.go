package machine

import "os"

// EndChildren kills everything that this process started and that still runs,
// for an end at once. What has left the tree of processes is not found.
func EndChildren() {
	list, err := processes()
	if err != nil {
		return
	}
	for pid := range tree(list, os.Getpid()) {
		if pid == os.Getpid() {
			continue
		}
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill() // it may have ended meanwhile
		}
	}
}
