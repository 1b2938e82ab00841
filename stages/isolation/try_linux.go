package isolation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// user gives the real, effective and saved user and group of this process.
func user(context.Context, string) (string, error) {
	ru, eu, su := unix.Getresuid()
	rg, eg, sg := unix.Getresgid()
	for _, id := range []int{ru, eu, su, rg, eg, sg} {
		if id != UID {
			return fmt.Sprintf("user %d %d %d, group %d %d %d", ru, eu, su, rg, eg, sg), nil
		}
	}
	return strconv.Itoa(UID), nil
}

// capabilities gives the effective, permitted, inheritable and ambient capabilities of this process.
func capabilities(context.Context, string) (string, error) {
	var data [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
		return "", err
	}
	if data == ([2]unix.CapUserData{}) {
		return "none", nil
	}
	return fmt.Sprintf("effective %08x%08x permitted %08x%08x", data[1].Effective, data[0].Effective, data[1].Permitted, data[0].Permitted), nil
}

func privileges(context.Context, string) (string, error) {
	v, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil {
		return "", err
	}
	if v == 1 {
		return "no new", nil
	}
	return "can be gained", nil
}

// vsock makes a socket to the hypervisor (vsock(7)), which no network namespace confines.
func vsock(context.Context, string) (string, error) {
	fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	return "made", unix.Close(fd)
}

// process looks for a process by its number and start time: another one can have the number in a namespace.
func process(_ context.Context, target string) (string, error) {
	pid, start, _ := strings.Cut(target, " ")
	if _, err := os.Stat("/proc/" + pid); err != nil {
		return "", err
	}
	got, err := startTime(pid)
	if err != nil || got == start {
		return "seen", nil // its number is, whatever else can be read
	}
	return "another process", nil
}

// startTime is field 22 of /proc/PID/stat (proc(5)), in ticks since the machine's start.
func startTime(pid string) (string, error) {
	body, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(string(body), ") ") // the name before it may hold anything but is cut by the kernel
	if i := strings.LastIndex(string(body), ") "); i >= 0 {
		rest = string(body[i+2:])
	}
	fields := strings.Fields(rest)
	if len(fields) < 20 {
		return "", errors.New("/proc: the process has no start time")
	}
	return fields[19], nil
}

// segment looks for shared memory of System V by its key.
func segment(_ context.Context, target string) (string, error) {
	key, err := strconv.Atoi(target)
	if err != nil {
		return "", err
	}
	_, err = unix.SysvShmGet(key, 0, 0)
	return "found", err
}

// plantSegment makes shared memory of System V that any user may look for.
func plantSegment(key int) (remove func() error, err error) {
	id, err := unix.SysvShmGet(key, os.Getpagesize(), unix.IPC_CREAT|unix.IPC_EXCL|0o444)
	if err != nil {
		return nil, err
	}
	return func() error { _, err := unix.SysvShmCtl(id, unix.IPC_RMID, nil); return err }, nil
}

func lock(f *os.File) error { return unix.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
