package isolation

import (
	"fmt"
	"runtime"
	"unsafe"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// socketCalls are every way to get a socket that leads out, and io_uring, which would get one unseen.
var socketCalls = []string{"socket", "connect", "bind", "listen", "accept", "accept4"}

// keyCalls are what no tool for models needs and what reaches beyond a box: the
// kernel's keyrings, its tracing, and io_uring, which no filter sees through.
var keyCalls = []string{"add_key", "request_key", "keyctl", "bpf", "perf_event_open", "io_uring_setup", "io_uring_enter", "io_uring_register"}

// processCalls reach other processes and the memory that System V and POSIX name
// outside the file system; a namespace takes them away where there is one.
var processCalls = []string{"ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "shmget", "shmat", "shmctl", "msgget", "msgsnd", "msgrcv", "msgctl",
	"semget", "semop", "semctl", "mq_open", "mq_unlink", "mount", "setns", "unshare"}

// families of sockets that a box can need. Others lead around its network: vsock
// to the hypervisor, whichever namespace it is in.
var (
	boxFamilies     = []int{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}
	networkFamilies = []int{unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK} // where sockets with names are the machine's
)

// refuseCalls refuses system calls with EPERM, in all threads and for good:
// those of another instruction set, those that set user or group ID bits, the named ones, and sockets of other
// families than the given ones; of any family when there are none.
func refuseCalls(names []string, families []int) error {
	native, err := arch.GetInfo("")
	if err != nil {
		return err
	}
	if err := refuseForeign(native); err != nil {
		return err
	}
	group := seccomp.SyscallGroup{Action: seccomp.ActionErrno, Names: names} // EPERM
	if len(families) > 0 {
		var none seccomp.ArgumentConditions
		for _, f := range families {
			none = append(none, seccomp.Condition{Argument: 0, Operation: seccomp.NotEqual, Value: uint64(f)})
		}
		group.NamesWithCondtions = []seccomp.NameWithConditions{{Name: "socket", Conditions: none}}
	}
	return seccomp.LoadFilter(seccomp.Filter{
		NoNewPrivs: true,
		Flag:       seccomp.FilterFlagTSync,
		Policy: seccomp.Policy{
			DefaultAction: seccomp.ActionAllow,
			Syscalls:      append(refuseSetID(native), group),
		},
	})
}

// refuseForeign refuses the system calls of another instruction set, whose
// numbers a filter by name does not know (seccomp(2), "Caveats"), and the two
// ioctls that type into a terminal.
func refuseForeign(native *arch.Info) error {
	const (
		load, equal, give          = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
		allow, refuse              = 0x7fff0000, 0x00050000 | uint32(unix.EPERM) // SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO
		offNumber, offArch         = 0, 4                                        // struct seccomp_data
		offRequest                 = 16 + 8                                      // its second argument; the kernel takes the low half
		filterOfAll        uintptr = 1                                           // SECCOMP_SET_MODE_FILTER
		sync               uintptr = 1                                           // SECCOMP_FILTER_FLAG_TSYNC
	)
	program := []unix.SockFilter{
		{Code: load, K: offArch},
		{Code: equal, K: uint32(native.ID), Jt: 1},
		{Code: give, K: refuse},
		{Code: load, K: offNumber},
		{Code: equal, K: unix.SYS_IOCTL, Jt: 1},
		{Code: give, K: allow},
		{Code: load, K: offRequest},
		{Code: equal, K: unix.TIOCSTI, Jt: 2},
		{Code: equal, K: tiocLinux, Jt: 1},
		{Code: give, K: allow},
		{Code: give, K: refuse},
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, filterOfAll, sync, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return fmt.Errorf("load the filter: %w", errno)
	}
	return nil
}

// tiocLinux is TIOCLINUX (ioctl_console(2)), by which a console pastes.
const tiocLinux = 0x541c

// enterSeccomp refuses every way to get a socket, in all threads and for good.
func enterSeccomp() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("enter the box: %w; the process must not go on", err)
	}
	calls := append([]string{"socketpair", "sendto", "sendmsg", "sendmmsg", "io_uring_setup"}, socketCalls...)
	if err := refuseCalls(calls, nil); err != nil {
		return fmt.Errorf("enter the box: %w; the process must not go on", err)
	}
	return nil
}
