package isolation

import (
	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// modeCalls give a file its mode, by the argument that holds it. A program with
// the set-user-ID bit that a box leaves behind is run outside as the user who
// started the box, for a box of root as root.
var modeCalls = map[string]uint32{"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mkdir": 1, "mkdirat": 2, "creat": 1, "mknod": 1, "mknodat": 2}

// openCalls do so only where they make a file: the arguments of flags and mode.
var openCalls = map[string][2]uint32{"open": {1, 2}, "openat": {2, 3}}

// refuseSetID refuses the set-user-ID and set-group-ID bits with EPERM, and
// openat2, whose mode no filter sees, as a kernel does that has no such call.
func refuseSetID(native *arch.Info) []seccomp.SyscallGroup {
	bits := func(argument uint32, value uint64) seccomp.Condition {
		return seccomp.Condition{Argument: argument, Operation: seccomp.BitsSet, Value: value}
	}
	var list []seccomp.NameWithConditions
	has := func(name string) bool { _, ok := native.SyscallNames[name]; return ok } // others have none of the old ones
	for name, mode := range modeCalls {
		if has(name) {
			list = append(list, seccomp.NameWithConditions{Name: name, Conditions: seccomp.ArgumentConditions{bits(mode, unix.S_ISUID|unix.S_ISGID)}})
		}
	}
	for name, at := range openCalls {
		if has(name) {
			list = append(list, seccomp.NameWithConditions{Name: name, Conditions: seccomp.ArgumentConditions{bits(at[0], unix.O_CREAT), bits(at[1], unix.S_ISUID|unix.S_ISGID)}},
				seccomp.NameWithConditions{Name: name, Conditions: seccomp.ArgumentConditions{bits(at[0], unix.O_TMPFILE&^unix.O_DIRECTORY), bits(at[1], unix.S_ISUID|unix.S_ISGID)}})
		}
	}
	groups := []seccomp.SyscallGroup{{Action: seccomp.ActionErrno, NamesWithCondtions: list}}
	if has("openat2") {
		groups = append(groups, seccomp.SyscallGroup{Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS), Names: []string{"openat2"}})
	}
	return groups
}
