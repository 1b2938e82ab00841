//go:build unix

package stages

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// ownGroup puts the command into a process group of its own. When its context
// ends all of the group is asked to end (SIGTERM); WaitDelay is its grace, after
// which the command is killed, and endGroup kills the rest.
func ownGroup(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}

// killGroup kills all of the command's group.
func killGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// endGroup kills what the command left behind in its group.
func endGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		killGroup(cmd) // ESRCH where nothing is left
	}
}

// maxRSS is ru_maxrss of the command and of all that it waited for, in bytes (getrusage(2)).
func maxRSS(state *os.ProcessState) int64 {
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		return rssBytes(int64(usage.Maxrss))
	}
	return 0
}

// ownMaxRSS is the same mark of this process.
func ownMaxRSS() int64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return rssBytes(int64(usage.Maxrss))
}

// rssBytes: macOS counts bytes, all others kilobytes.
func rssBytes(n int64) int64 {
	if runtime.GOOS == "darwin" {
		return n
	}
	return n << 10
}

// linkCount is how many names a file has.
func linkCount(st os.FileInfo) uint64 {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return uint64(sys.Nlink)
	}
	return 1
}
