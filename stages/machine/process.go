package machine

import "strconv"

// process is one running process as a reading finds it.
type process struct {
	pid, parent int
	name        string
	start       string  // when it began, in the kernel's own word
	rss         int64   // bytes
	cpu         float64 // seconds of processor time used so far
	age         float64 // seconds since it began; 0 when unknown
	stopped     bool
	kernel      bool // a thread of the kernel
}

// key tells a process from a later one with the same pid.
func (p process) key() string { return strconv.Itoa(p.pid) + " " + p.start }

// tree is the set of pids of a process and everything that it started.
func tree(list []process, root int) map[int]bool {
	children := map[int][]int{}
	for _, p := range list {
		children[p.parent] = append(children[p.parent], p.pid)
	}
	in := map[int]bool{}
	for next := []int{root}; len(next) > 0; {
		pid := next[len(next)-1]
		next = next[:len(next)-1]
		if in[pid] {
			continue // a table that was read while it changed can hold a circle
		}
		in[pid] = true
		next = append(next, children[pid]...)
	}
	return in
}
