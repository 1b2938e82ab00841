package machine

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weighmaster/weighmaster/schemas"
)

func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatalf("start sleep: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	return cmd
}

func TestAPidAloneIsNotBelieved(t *testing.T) {
	self := Self()
	if got := Look(self); got != Alive {
		t.Fatalf("this process is %s", got)
	}
	for name, c := range map[string]struct {
		change func(*schemas.ProcessID)
		want   State
	}{
		"a record of another boot":                {func(id *schemas.ProcessID) { id.BootID = "7d5cbb35-0000-4000-8000-000000000000" }, OtherBoot},
		"a pid that is another process now":       {func(id *schemas.ProcessID) { id.Start += "1" }, Another},
		"a pid that nobody has":                   {func(id *schemas.ProcessID) { id.PID = 1<<22 + 1 }, Gone},
		"a pid that is none":                      {func(id *schemas.ProcessID) { id.PID = -1 }, Gone},
		"a record without a boot":                 {func(id *schemas.ProcessID) { id.BootID = "" }, Another},
		"a record without a start":                {func(id *schemas.ProcessID) { id.Start = "" }, Another},
		"a record of another container":           {func(id *schemas.ProcessID) { id.Namespace += "1" }, Elsewhere},
		"a record of another container, rebooted": {func(id *schemas.ProcessID) { id.Namespace, id.BootID = "pid:[1]", "x" }, OtherBoot},
	} {
		id := self
		c.change(&id)
		if got := Look(id); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestAProcessThatEndsIsGone(t *testing.T) {
	cmd := sleeper(t)
	id := Self()
	id.PID, id.Start = cmd.Process.Pid, processStart(cmd.Process.Pid)
	if got := Look(id); got != Alive {
		t.Fatalf("a running process is %s", got)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "linux" { // dead and not yet seen by its parent: it runs no more
		until(t, "a dead process is gone before its parent looks", func() bool { return Look(id) == Gone })
	}
	_ = cmd.Wait() // it was killed
	if got := Look(id); got != Gone {
		t.Errorf("a process that ended is %s", got)
	}
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 500 {
		if holds() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%s: it did not come to that", what)
}

func TestProcessesHoldThisOneAndItsChildren(t *testing.T) {
	cmd := sleeper(t)
	list, err := processes()
	if err != nil {
		t.Fatal(err)
	}
	ours := tree(list, os.Getpid())
	if !ours[os.Getpid()] || !ours[cmd.Process.Pid] || ours[1] && os.Getpid() != 1 {
		t.Errorf("the tree of this process is %v", ours)
	}
	for _, p := range list {
		if p.pid == os.Getpid() && (p.rss < 1<<20 || p.start == "" || p.age < 0 || p.age > 86400) {
			t.Errorf("this process is read as %+v", p)
		}
		if p.pid == cmd.Process.Pid && p.name != "sleep" {
			t.Errorf("the child is called %q", p.name)
		}
	}
}

func TestATreeWithACircleEnds(t *testing.T) {
	ours := tree([]process{{pid: 2, parent: 3}, {pid: 3, parent: 2}, {pid: 4, parent: 3}, {pid: 5, parent: 1}}, 2)
	if len(ours) != 3 || ours[5] {
		t.Errorf("got %v", ours)
	}
}

func TestNamesAreFitToBeShown(t *testing.T) {
	for name, want := range map[string]string{"": "?", "a\x1b[2Jb\n": "a?[2Jb?", "ok name": "ok name", "\xff": "?"} {
		if got := clean(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	if got := clean(strings.Repeat("ä", 100)); len(got) > 64 || !strings.HasPrefix(got, "ää") {
		t.Errorf("got %d bytes: %q", len(got), got)
	}
}
