// Package isolation runs programs in a box and shows what the box denies.
//
// [Open] makes the box of a tool: it holds the mounts that are named, the
// system's folders read-only, and nothing else of the machine. Ways to make it,
// best first:
//
//   - bubblewrap: namespaces of its own (user 65534 without capabilities, mounts,
//     processes, network, shared memory), private /tmp, /proc and /dev/shm, and
//     mounts renamed below /work. Inside, this program is the guard: it closes
//     inherited descriptors, leaves the session keyring, makes what can be written
//     noexec, adds Landlock and seccomp, gives away its last capability and
//     becomes the tool.
//   - landlock: the guard alone, by Landlock (version 3, Linux 6.2) and seccomp.
//     It is weaker, and recorded so: what is outside cannot be opened but is seen.
//   - sandbox-exec: a profile for macOS. It is tested as text; no test of this
//     project has run it on a Mac.
//   - none: only the environment is the box's own.
//
// What each does not deny, [NotDenied] says; what each can show, [Gives]. A
// person who is root outside owns in the box what root owns: only what is
// mounted, and not the kernel's settings, which are read-only there.
//
// [Examine] has this program try, in such a box, what it is to deny. An
// attribute is shown by the errno of the refusal, while the same attempt
// succeeds outside before and after ([ShownBy]); a time-out shows nothing.
//
// [Command] is less: this program without network, for where no box works. The
// ways are a network namespace, then seccomp, on macOS sandbox-exec, then none.
// It does not deny files, nor sockets that have names in the file system (in a
// network namespace).
//
// The guard, the probe's child and the child of Command are this program again.
// Its main function, and TestMain of a test binary that uses the package, must
// call [Enter] before anything else.
package isolation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
)

// Method is a way to take the network away from a process.
type Method string

const (
	Namespace  Method = "network namespace"
	Seccomp    Method = "seccomp filter"
	Bubblewrap Method = "bubblewrap"
	Landlock   Method = "landlock"
	Sandbox    Method = "sandbox-exec"
	None       Method = "none"
)

// UID is the user and group inside a box on Linux: nobody, who owns nothing.
const UID = 65534

// marker is the environment variable that tells the child which box it is to enter.
const marker = "WEIGHMASTER_BOX"

// Values of marker besides a [Method].
const (
	guardMarker = "guard" // read the job from descriptor 3, close the box from within, become the program
	probeMarker = "probe" // try what standard input says and answer on standard output
)

// kept are the only environment variables that a child gets: no credentials travel.
var kept = []string{"PATH", "TMPDIR", "LANG", "GOCOVERDIR", "GODEBUG"}

// Command prepares this program, with args, to run without network by the
// first way that works here. The context kills it. Extra variables may be added
// to cmd.Env; the caller sets the streams.
func Command(ctx context.Context, args ...string) (*exec.Cmd, Method, error) {
	return CommandBy(ctx, best(), args...)
}

// CommandBy is Command by one given way.
func CommandBy(ctx context.Context, m Method, args ...string) (*exec.Cmd, Method, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, None, fmt.Errorf("find the running binary: %w", err)
	}
	if err := supported(m); err != nil {
		return nil, None, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = environment(m)
	confine(cmd, m)
	return cmd, m, nil
}

func environment(m Method) []string {
	env := []string{marker + "=" + string(m)}
	for _, name := range kept {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// Inside tells whether this process was started by [Command].
func Inside() bool { return os.Getenv(marker) != "" }

// Enter finishes the box from within. In any other process it does nothing. An
// error means that the box is not closed: the process must end.
func Enter() error {
	switch os.Getenv(marker) {
	case guardMarker:
		return enterGuard()
	case probeMarker:
		if err := probeChild(os.Stdin, os.Stdout); err != nil {
			return fmt.Errorf("the isolation probe: %w", err)
		}
		os.Exit(0)
	case string(Seccomp):
		return enterSeccomp()
	}
	return nil
}

// best finds out once which way works.
var best = sync.OnceValue(func() Method {
	for _, m := range []Method{Namespace, Seccomp, Sandbox} {
		if supported(m) == nil {
			return m
		}
	}
	return None
})

// Methods lists the ways that work on this machine for this user, best first.
func Methods() []Method {
	var list []Method
	for _, m := range []Method{Namespace, Seccomp, Sandbox} {
		if supported(m) == nil {
			list = append(list, m)
		}
	}
	return list
}

var errNotHere = errors.New("this operating system does not have it")
