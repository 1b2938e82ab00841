package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	ossignal "os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages"
)

// begun starts a run whose tool works until it is stopped, and waits until it does.
func (w *work) begun(before string, flags ...string) (cmd *exec.Cmd, said *bytes.Buffer) {
	w.t.Helper()
	args := append([]string{"--project", w.dir, "exec", "--name", "long", "--output", "never"}, flags...)
	cmd = w.command("weighmaster", append(args, "--", "/bin/sh", "-c", before+"echo half > never.partial; sleep 600 & wait; sleep 600")...)
	said = &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	w.until("the tool works", func() bool { return w.has("long", "never.partial") })
	return cmd, said
}

func (w *work) until(what string, holds func() bool) {
	w.t.Helper()
	for range 600 {
		if holds() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	w.t.Fatalf("%s: it did not come to that", what)
}

func exitOf(cmd *exec.Cmd) int {
	_ = cmd.Wait() // the code tells
	return cmd.ProcessState.ExitCode()
}

func TestASignalStopsARunInOrder(t *testing.T) {
	signals := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !ossignal.Ignored(syscall.SIGHUP) { // as below nohup, whose children go on
		signals = append(signals, syscall.SIGHUP)
	}
	for _, signal := range signals {
		w := newWork(t, t.TempDir())
		cmd, said := w.begun("")
		tools := w.status().Running[0]
		if tools.Standing != stages.Running || tools.Process.PID != cmd.Process.Pid {
			t.Fatalf("it is %s: %+v", tools.Standing, tools)
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if code := exitOf(cmd); code != exitUndecided {
			t.Errorf("%s: exit code %d, want %d:\n%s", signal, code, exitUndecided, said)
		}
		for _, want := range []string{"weighmaster: " + signal.String() + ": ending in order; once more ends at once", "stopped by a signal (" + signal.String() + "): the command was stopped"} {
			if !strings.Contains(said.String(), want) {
				t.Errorf("it does not say %q:\n%s", want, said)
			}
		}
		s := w.status()
		if len(s.Running) != 0 || len(s.Stages) == 0 || s.Stages[len(s.Stages)-1].Verdict != schemas.Failed || !strings.HasPrefix(s.Stages[len(s.Stages)-1].Failure, "stopped by a signal") {
			t.Errorf("%s: it is recorded as %+v", signal, s)
		}
		if w.leftBehind() {
			t.Errorf("%s: its tool still runs", signal)
		}
		if !w.has("long", "never.partial") {
			t.Errorf("%s: what the tool made is gone", signal)
		}
		w.must(step("")...) // the locks are free
	}
}

// leftBehind tells whether a process still has the long step's folder as its own.
func (w *work) leftBehind() bool {
	dirs, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range dirs {
		if to, err := os.Readlink(d); err == nil && strings.HasPrefix(to, filepath.Join(w.dir, "work")) {
			return true
		}
	}
	return false
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	w := newWork(t, t.TempDir())
	cmd, said := w.begun("trap '' TERM; ", "--box", "none")
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond) // two signals of one kind that come together are one
	begin := time.Now()
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := exitOf(cmd); code != 130 {
		t.Errorf("exit code %d, want 130:\n%s", code, said)
	}
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("it took %s", took)
	}
	w.until("the tool is gone", func() bool { return !w.leftBehind() })
	s := w.status()
	if len(s.Running) != 1 || s.Running[0].Standing != stages.Interrupted {
		t.Errorf("got %+v", s.Running)
	}
	w.must(step("")...)
}

// A tool that does not heed SIGTERM is killed after its grace.
func TestAToolThatHeedsNoSignalIsKilled(t *testing.T) {
	w := newWork(t, t.TempDir())
	cmd, said := w.begun("trap '' TERM; ", "--box", "none")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := exitOf(cmd); code != exitUndecided || !strings.Contains(said.String(), "stopped by a signal (terminated)") {
		t.Errorf("exit code %d:\n%s", code, said)
	}
	if w.leftBehind() {
		t.Error("its tool still runs")
	}
}

// The wrapper is killed and its tool, in no box, lives on: nothing starts beside it.
func TestAToolThatOutlivesItsRunIsNotJoined(t *testing.T) {
	w := newWork(t, t.TempDir())
	cmd, _ := w.begun("", "--box", "none")
	w.until("the tool is in the word of progress", func() bool {
		body, err := os.ReadFile(filepath.Join(w.dir, "work", "progress", "long.json"))
		return err == nil && strings.Contains(string(body), `"name":"sleep"`)
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	exitOf(cmd)
	code, said := w.run(step("")...)
	if code != exitUndecided || !strings.Contains(said, "stage long: its run ended without a record, and a program that it started is still there: ") {
		t.Errorf("exit code %d: %s", code, said)
	}
	w.endLeftBehind()
	w.must(step("")...)
}

// endLeftBehind kills what still works in the project's folder.
func (w *work) endLeftBehind() {
	w.until("what was left behind is gone", func() bool {
		dirs, err := filepath.Glob("/proc/[0-9]*/cwd")
		if err != nil {
			w.t.Fatal(err)
		}
		gone := true
		for _, d := range dirs {
			to, err := os.Readlink(d)
			pid, bad := strconv.Atoi(strings.Split(d, "/")[2])
			if err == nil && bad == nil && strings.HasPrefix(to, filepath.Join(w.dir, "work")) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				gone = false
			}
		}
		return gone
	})
}

func TestARunThatIsHaltedIsCalledStoppedAndKeepsTheMachine(t *testing.T) {
	w := newWork(t, t.TempDir())
	cmd, _ := w.begun("")
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	w.until("it is stopped", func() bool { return w.status().Running[0].Standing == stages.Halted })
	code, said := w.run(step("")...)
	if code != exitUndecided || !strings.Contains(said, "another run holds this project: process "+strconv.Itoa(cmd.Process.Pid)) || !strings.Contains(said, "it is stopped by a signal; let it go on (kill -CONT") {
		t.Errorf("exit code %d: %s", code, said)
	}
	other := newWork(t, t.TempDir())
	other.root = w.root
	code, said = other.run(step("", "--no-wait")...)
	if code != exitUndecided || !strings.Contains(said, "another run holds this machine: process "+strconv.Itoa(cmd.Process.Pid)+" with stage long of "+w.dir) {
		t.Errorf("exit code %d: %s", code, said)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	w.until("it goes on", func() bool { return w.status().Running[0].Standing == stages.Running })
}

// Two projects of one machine: the second waits, says for whom, and goes on when the first is killed.
func TestASecondProjectWaitsForTheMachine(t *testing.T) {
	a, b := newWork(t, t.TempDir()), newWork(t, t.TempDir())
	b.root = a.root
	first, _ := a.begun("")
	second := b.command("weighmaster", append([]string{"--project", b.dir}, step("")...)...)
	pipe, err := second.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 4096)
	n, err := pipe.Read(line)
	if err != nil || !strings.Contains(string(line[:n]), "one heavy job at a time on this machine: waiting for process "+strconv.Itoa(first.Process.Pid)+" with stage long of "+a.dir) {
		t.Fatalf("%v: %s", err, line[:n])
	}
	if b.has("step", "out.bin") {
		t.Error("the second began beside the first")
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(pipe)
	if code := exitOf(second); err != nil || code != exitHolds || !strings.Contains(string(rest), "the last heavy job of this machine did not end by itself") {
		t.Errorf("exit code %d, %v: %s", code, err, rest)
	}
}

func TestStatusWatchesUntilNothingRuns(t *testing.T) {
	w := newWork(t, t.TempDir())
	cmd, _ := w.begun("")
	watch := w.command("weighmaster", "--project", w.dir, "status", "--watch", "--every", "100ms")
	lines, errs := &bytes.Buffer{}, &bytes.Buffer{}
	watch.Stdout, watch.Stderr = lines, errs
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	jsons := w.command("weighmaster", "--project", w.dir, "status", "--watch", "--json", "--every", "100ms")
	var objects bytes.Buffer
	jsons.Stdout = &objects
	if err := jsons.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	exitOf(cmd)
	if code := exitOf(watch); code != exitHolds || !strings.Contains(lines.String(), "exec      running, sampled: ") || !strings.Contains(lines.String(), "FAIL long") {
		t.Errorf("exit code %d: %s%s", code, lines, errs)
	}
	if code := exitOf(jsons); code != exitHolds {
		t.Errorf("exit code %d", code)
	}
	first, _, _ := strings.Cut(objects.String(), "\n")
	if _, err := strictJSON([]byte(first)); err != nil || !strings.Contains(first, `"standing":"running"`) {
		t.Errorf("%v: %s", err, first)
	}
}
