package stages

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weighmaster/weighmaster/stages/machine"
)

// TestHoldTheLock is the other process: it takes the lock that the environment
// names, says so, and holds it until its input ends.
func TestHoldTheLock(t *testing.T) {
	path := os.Getenv("WEIGHMASTER_TEST_LOCK")
	if path == "" {
		t.Skip("this is the child of the test below")
	}
	if _, _, err := acquireLock(path, holder{ProcessID: machine.Self(), Since: time.Now()}); err != nil {
		t.Fatal(err)
	}
	fmt.Println("held")
	_, _ = os.Stdin.Read(make([]byte, 1))
}

func TestALockIsFreeWhenItsProcessDies(t *testing.T) {
	l := newLine(t)
	path := filepath.Join(l.Project, "work", "lock")
	child := exec.Command(os.Args[0], "-test.run=^TestHoldTheLock$")
	child.Env = append(os.Environ(), "WEIGHMASTER_TEST_LOCK="+path)
	if _, err := child.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	_, _, err = l.again(t)
	var locked *LockedError
	if !errors.As(err, &locked) || !strings.Contains(locked.Owner, fmt.Sprintf(`"pid":%d`, child.Process.Pid)) || l.source.runs != 0 {
		t.Errorf("got %v, want a refusal that names process %d", err, child.Process.Pid)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	l.mustRun(t, allRan)
}
