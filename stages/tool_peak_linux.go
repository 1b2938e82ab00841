package stages

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// peakEvery is how often the processes of a command are looked at: a process
// that grew and ended in between is missed.
const peakEvery = 100 * time.Millisecond

// watchPeak looks at a process and all that come from it until stop is called,
// which gives the largest VmHWM that any of them had, in bytes (proc_pid_status(5)).
// The wait status of a box does not tell it: bwrap ends before its own child is waited for.
func watchPeak(pid int) (stop func() int64) {
	end, done := make(chan struct{}), make(chan int64)
	go func() {
		var peak int64
		tick := time.NewTicker(peakEvery)
		defer tick.Stop()
		for {
			for _, p := range processesFrom(pid) {
				peak = max(peak, highWaterOf(p))
			}
			select {
			case <-end:
				done <- peak
				return
			case <-tick.C:
			}
		}
	}()
	return func() int64 { close(end); return <-done }
}

// maxProcesses bounds one look.
const maxProcesses = 10_000

// processesFrom lists what a process started, and what those started.
func processesFrom(pid int) []int {
	list := []int{pid}
	for i := 0; i < len(list) && len(list) < maxProcesses; i++ {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", list[i])) // only a malformed pattern fails
		for _, file := range files {
			body, _ := os.ReadFile(file) // gone with its process
			for _, word := range bytes.Fields(body) {
				if child, err := strconv.Atoi(string(word)); err == nil {
					list = append(list, child)
				}
			}
		}
	}
	return list
}

func highWaterOf(pid int) int64 {
	body, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(body, []byte("\nVmHWM:"))
	line, _, _ := bytes.Cut(rest, []byte(" kB\n"))
	kilobytes, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 40)
	if err != nil || kilobytes < 0 {
		return 0
	}
	return kilobytes << 10
}
