// Package isolation starts a child process that has no network, and shows it
// by the refusal itself: the child tries to connect and reports the errno.
//
// The child is this program again. Its main function, and TestMain of a test
// binary that uses the package, must call [Enter] before anything else.
//
// Ways to enforce it, in the order in which they are tried:
//
//  1. Linux: a new user and network namespace (user_namespaces(7), network_namespaces(7)).
//  2. Linux: a seccomp filter over all threads that refuses socket, connect and io_uring with EPERM (seccomp(2)).
//  3. macOS: sandbox-exec with (deny network*).
//  4. None of them: the child runs, and the box is said to be not enforced.
//
// What it does not deny: files, and sockets that have names in the file system
// (in a network namespace).
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
