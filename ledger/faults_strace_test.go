//go:build linux

package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weighmaster/weighmaster/ledger/faulttest"
)

const childSession = "WEIGHMASTER_TEST_SESSION"

// TestChildSession is no test of its own: it is the process whose system calls
// fail in the test below. It does the deeds, each a second time after an error,
// and prints the number of each that was acknowledged.
func TestChildSession(t *testing.T) {
	dir := os.Getenv(childSession)
	if dir == "" {
		t.Skip("runs in a child process of another test")
	}
	// strace counts the calls of each thread.
	runtime.LockOSThread()
	twice := func(f func() error) error {
		err := f()
		if err != nil {
			fmt.Println("again after", err)
			err = f()
		}
		return err
	}
	var w *world
	if err := twice(func() (err error) { w, err = open(t, dir); return err }); err != nil {
		t.Fatalf("open: %v", err)
	}
	for i, d := range deeds() {
		if err := twice(func() error { return w.do(d) }); err != nil {
			t.Fatalf("deed %d: %v", i, err)
		}
		os.Stdout.WriteString(fmt.Sprintf("\nacknowledged %d\n", i))
	}
}

func strace(t *testing.T) string {
	t.Helper()
	path := os.Getenv("WEIGHMASTER_STRACE")
	if path == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("WEIGHMASTER_STRACE is not set; .ci/interop/install-strace sets it")
		}
		t.Skip("WEIGHMASTER_STRACE is not set")
	}
	return path
}

// calls are the system calls that write, in groups of those of one purpose.
var calls = []struct {
	names string
	grows bool // may find the disk full
	least int  // calls that the session makes at least
}{
	{"pwrite64", true, 40},
	{"write", true, 20},
	{"fsync,fdatasync", false, 20},
	{"rename,renameat,renameat2", true, 5},
	{"linkat,link", true, 5},
	{"openat,open", true, 20},
	{"ftruncate,fallocate", true, 1},
	{"unlink,unlinkat", false, 5},
	{"mkdir,mkdirat", true, 2},
}

// TestSystemCallsFail runs the session as a process under strace, which kills
// it at a system call or lets the call fail: each of the first ones, then ever
// fewer. What was acknowledged must be there, and everything can be appended
// again.
func TestSystemCallsFail(t *testing.T) {
	tracer := strace(t)
	count := map[string]int{}
	survived := 0
	for _, c := range calls {
		kinds := []string{"signal=KILL", "error=EIO"}
		if c.grows {
			kinds = append(kinds, "error=ENOSPC")
		}
		if c.names == "pwrite64" || c.names == "write" {
			kinds = append(kinds, "retval=0") // a short write
		}
		for _, kind := range kinds {
			fired := 0
			for n := 1; n <= c.least || fired == 0; n += 1 + n*straceStride/4 {
				if n > 200 {
					t.Errorf("%s of %s never struck", kind, c.names)
					break
				}
				struck, err := traced(t, tracer, c.names, kind, n)
				if struck {
					fired++
					count[kind]++
				}
				if err != nil {
					t.Errorf("%s at call %d of %s: %v", kind, n, c.names, err)
				} else if struck {
					survived++
				}
			}
		}
	}
	total := 0
	var parts []string
	for _, kind := range []string{"signal=KILL", "error=EIO", "error=ENOSPC", "retval=0"} {
		if count[kind] == 0 {
			t.Errorf("no %s struck", kind)
		}
		total += count[kind]
		parts = append(parts, fmt.Sprintf("%s %d", kind, count[kind]))
	}
	fmt.Printf("ledger process with failing system calls: %d faults injected: %d survived (%s)\n", total, survived, strings.Join(parts, ", "))
}

// traced runs one session under strace and inspects what it left.
func traced(t *testing.T, tracer, names, kind string, n int) (struck bool, err error) {
	t.Helper()
	dir := faulttest.TempDir(t)
	defer os.RemoveAll(dir)
	w, err := create(t, filepath.Join(dir, "p"))
	if err != nil {
		t.Fatal(err)
	}
	w.store.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	trace := filepath.Join(dir, "trace")
	cmd := exec.CommandContext(ctx, tracer, "-f", "-o", trace, "-e", "trace="+names, "-e", fmt.Sprintf("inject=%s:%s:when=%d", names, kind, n),
		os.Args[0], "-test.run=^TestChildSession$", "-test.count=1")
	cmd.Env = append(os.Environ(), childSession+"="+w.dir)
	out, runErr := cmd.CombinedOutput()
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	struck = strings.Contains(string(text), "(INJECTED)") || strings.Contains(string(text), "killed by SIGKILL")
	var exit *exec.ExitError
	if runErr != nil && !errors.As(runErr, &exit) {
		return struck, runErr
	}
	if !struck && runErr != nil {
		t.Fatalf("without a fault: %v\n%s", runErr, out)
	}
	if runErr != nil && kind != "signal=KILL" {
		return struck, fmt.Errorf("the session did not recover: %w: %s", runErr, out)
	}
	return struck, inspect(t, w.dir, saidDone(string(out)))
}

// saidDone collects the deeds that a session acknowledged.
func saidDone(out string) promised {
	var p promised
	lines := strings.Split(out, "\n")
	for i, d := range deeds() {
		if slices.Contains(lines, "acknowledged "+strconv.Itoa(i)) {
			p.add(d)
		}
	}
	return p
}
