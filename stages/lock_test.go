package stages

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/machine"
)

// TestHoldTheLock is the other process: it takes the lock that the environment
// names, says so, and holds it until its input ends.
func TestHoldTheLock(t *testing.T) {
	path := os.Getenv("WEIGHMASTER_TEST_LOCK")
	if path == "" {
		t.Skip("this is the child of the tests below")
	}
	if _, _, err := acquireLock(path, holder{ProcessID: machine.Self(), Since: time.Now(), Project: "/another/project", Stage: "q8"}); err != nil {
		t.Fatal(err)
	}
	fmt.Println("held")
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// holding starts a process that holds the lock.
func holding(t *testing.T, path string) (child *exec.Cmd, letGo io.Closer) {
	t.Helper()
	child = exec.Command(os.Args[0], "-test.run=^TestHoldTheLock$")
	child.Env = append(os.Environ(), "WEIGHMASTER_TEST_LOCK="+path)
	letGo, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill() // it may have ended
		_ = child.Wait()
	})
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	return child, letGo
}

func TestALockIsFreeWhenItsProcessDies(t *testing.T) {
	l := newLine(t)
	path := filepath.Join(l.Project, "work", "lock")
	child, _ := holding(t, path)
	_, _, err := l.again(t)
	var locked *LockedError
	if !errors.As(err, &locked) || !strings.Contains(locked.Owner, fmt.Sprintf(`"pid":%d`, child.Process.Pid)) || l.source.runs != 0 {
		t.Errorf("got %v, want a refusal that names process %d", err, child.Process.Pid)
	}
	if want := fmt.Sprintf("another run holds this project: process %d with stage q8 of /another/project since ", child.Process.Pid); !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), ": it runs;") {
		t.Errorf("got %v, want %q", err, want)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	var notices []string
	old := l.Observe
	l.Observe = func(e Event) {
		if e.Kind == "notice" {
			notices = append(notices, e.Message)
		}
		old(e)
	}
	l.mustRun(t, allRan)
	if len(notices) != 1 || !strings.Contains(notices[0], fmt.Sprintf("no process has the pid %d any more", child.Process.Pid)) {
		t.Errorf("told %q, want one notice that the holder is gone", notices)
	}
	if record := readRecord(path); record != "" {
		t.Errorf("a run that ended left the record %s", record)
	}
	notices = nil
	l.mustRun(t, allResumed)
	if len(notices) != 0 {
		t.Errorf("after a run that ended by itself it was told %q", notices)
	}
}

// What a record says is held against what runs; the lock is the system's.
func TestARecordThatALockLeftIsHeldAgainstWhatRuns(t *testing.T) {
	self := machine.Self()
	record := func(change func(*schemas.ProcessID)) string {
		h := holder{ProcessID: self, Project: "/p"}
		change(&h.ProcessID)
		body, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	for name, c := range map[string]struct{ body, words string }{
		"another boot's pid":          {record(func(id *schemas.ProcessID) { id.BootID = "1f9c" }), "the record is of another boot"},
		"a pid used again":            {record(func(id *schemas.ProcessID) { id.Start = "1" }), fmt.Sprintf("pid %d is another process now", self.PID)},
		"a pid that nobody has":       {record(func(id *schemas.ProcessID) { id.PID = 1<<22 + 9 }), "no process has the pid 4194313 any more"},
		"another container's pid":     {record(func(id *schemas.ProcessID) { id.Namespace = "pid:[7]" }), "the record is of another container"},
		"a record of an older format": {fmt.Sprintf(`{"pid":%d,"bootId":%q,"started":"2026-01-01T00:00:00Z"}`, self.PID, self.BootID), fmt.Sprintf("pid %d is another process now", self.PID)},
		"half a record":               {`{"pid":12`, "its record cannot be read"},
		"no record of anything":       {"\x00\x00\x00", "its record cannot be read"},
	} {
		path := filepath.Join(t.TempDir(), "lock")
		if err := os.WriteFile(path, []byte(c.body), 0o644); err != nil {
			t.Fatal(err)
		}
		l, left, err := acquireLock(path, holder{ProcessID: self})
		if err != nil {
			t.Errorf("%s: %v; what is left is no lock", name, err)
			continue
		}
		l.release()
		if !strings.Contains(left, c.words) {
			t.Errorf("%s: got %q, want %q", name, left, c.words)
		}
	}
}

func TestOfManyRunnersThatStartAtOnceOneRuns(t *testing.T) {
	const rounds, runners = 40, 6
	for range rounds {
		path := filepath.Join(t.TempDir(), "work", "lock")
		var wg sync.WaitGroup
		var mu sync.Mutex
		var held []*lock
		for range runners {
			wg.Go(func() {
				l, _, err := acquireLock(path, holder{ProcessID: machine.Self()})
				var locked *LockedError
				if err != nil && !errors.As(err, &locked) {
					t.Error(err)
				}
				if err == nil {
					mu.Lock()
					held = append(held, l)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(held) != 1 {
			t.Fatalf("%d of %d hold the lock", len(held), runners)
		}
		held[0].release()
	}
	fmt.Printf("%d times %d runners started at once: one ran each time\n", rounds, runners)
}

func TestALockOverALinkThatLeadsNowhereIsNoPanic(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.Symlink("/nowhere/at/all", path); err != nil {
		t.Fatal(err)
	}
	if _, _, err := acquireLock(path, holder{}); err == nil {
		t.Error("got no error")
	}
}
