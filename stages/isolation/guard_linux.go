package isolation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// attach hands a command an anonymous file at its next free descriptor.
func (b *Box) attach(cmd *exec.Cmd, name string, body []byte) error {
	fd, err := unix.MemfdCreate("weighmaster-"+name, unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("box: an anonymous file: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	b.cleanups = append(b.cleanups, f.Close)
	if _, err := f.Write(body); err != nil {
		return fmt.Errorf("box: an anonymous file: %w", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("box: an anonymous file: %w", err)
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	return nil
}

// enterGuard never returns when it succeeds.
func enterGuard() error {
	// What is done to one thread alone has to be done to the one that becomes the program.
	runtime.LockOSThread()
	job, err := readJob()
	if err != nil {
		return fmt.Errorf("enter the box: its job: %w; the program was not started", err)
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"leave nothing of the outside", job.leaveOutside},
		{"go to " + job.Dir, func() error { return chdir(job.Dir) }},
		{"run nothing that is written", func() error { return noExec(job.NoExec) }},
		{"no new privileges", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		{"Landlock", job.restrict},
		{"no capabilities", func() error { return dropPower(job.UID) }},
		{"seccomp", func() error { return refuseCalls(job.Refuse, job.Families) }},
		{"start " + job.Program, func() error { return unix.Exec(job.Program, job.Args, job.Env) }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("enter the box: %s: %w; the program was not started", step.what, err)
		}
	}
	return nil
}

func readJob() (job guardJob, err error) {
	f := os.NewFile(guardDescriptor, "job")
	return job, errors.Join(json.NewDecoder(f).Decode(&job), f.Close())
}

// leaveOutside shuts what a process inherits. A descriptor is a door to where it
// was opened, and a session keyring holds the keys of whoever logged in. A core
// of a program that held a model is a copy of it, which the kernel hands to a program outside.
func (job guardJob) leaveOutside() error {
	if err := unix.CloseRange(guardDescriptor, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return err
	}
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
		return err // where keyrings are refused altogether none can be read
	}
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}

func chdir(dir string) error {
	if dir == "" {
		return nil
	}
	return unix.Chdir(dir)
}

// noExec makes mount points noexec in a mount namespace of its own: neither
// execve nor a loader that maps the file gets code from there.
func noExec(points []string) error {
	if len(points) == 0 {
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	for _, p := range points {
		if err := unix.Mount("", p, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOEXEC|unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return nil
}

// dropPower gives away every capability, and the user where one is named.
func dropPower(uid int) error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	for c := uintptr(0); c < 64; c++ {
		// EINVAL: there are no more. EPERM: this user has none to give away, and gains none.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			break
		}
	}
	if uid != 0 {
		if err := unix.Setgroups(nil); err != nil {
			return err
		}
		if err := unix.Setresgid(uid, uid, uid); err != nil {
			return err
		}
		if err := unix.Setresuid(uid, uid, uid); err != nil {
			return err
		}
	}
	var none [2]unix.CapUserData
	return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0])
}
