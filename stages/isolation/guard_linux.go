package isolation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"

	"github.com/landlock-lsm/go-landlock/landlock"
	landsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// landlockABI is the version of Landlock that the kernel has; an error when it has none.
var landlockABI = sync.OnceValues(func() (int, error) {
	v, err := landsys.LandlockGetABIVersion()
	if err != nil || v < 1 {
		return 0, fmt.Errorf("%s: the kernel has none (version %d, %w); it needs Linux 5.13 and lsm=landlock", Landlock, v, err)
	}
	return v, nil
})

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
	fail := func(what string, err error) error {
		return fmt.Errorf("enter the box: %s: %w; the program was not started", what, err)
	}
	runtime.LockOSThread()
	f := os.NewFile(guardDescriptor, "job")
	var job guardJob
	if err := json.NewDecoder(f).Decode(&job); err != nil {
		return fail("the job", err)
	}
	if err := f.Close(); err != nil {
		return fail("the job", err)
	}
	// A descriptor that was inherited is a door: none but the three streams stays open.
	if err := unix.CloseRange(guardDescriptor, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fail("close inherited descriptors", err)
	}
	// A core of a program that held a model is a copy of it, and the kernel hands cores to a program outside.
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fail("no cores", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fail("no new privileges", err)
	}
	if job.Executable != nil {
		if err := restrictExecution(job.Executable); err != nil {
			return fail("deny execution", err)
		}
	}
	return fail(job.Program, unix.Exec(job.Program, job.Args, job.Env))
}

// restrictExecution lets programs be executed only below the given places.
func restrictExecution(places []string) error {
	const execute = landlock.AccessFSSet(landsys.AccessFSExecute)
	if _, err := landlockABI(); err != nil {
		return nil // recorded by the parent: what was written can be executed
	}
	config, err := landlock.NewConfig(execute)
	if err != nil {
		return err
	}
	var rules []landlock.Rule
	for _, p := range places {
		if _, err := os.Stat(p); errors.Is(err, os.ErrNotExist) {
			continue
		}
		rules = append(rules, landlock.PathAccess(execute, p))
	}
	return config.RestrictPaths(rules...)
}
