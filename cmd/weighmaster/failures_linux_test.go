package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages"
)

// A project whose only work is a command in a box, in a folder of its own, on a
// machine of its own.
type work struct {
	t    *testing.T
	dir  string
	root string // the machine's
}

func newWork(t *testing.T, dir string) *work {
	t.Helper()
	if _, err := plainFolder(); err != nil {
		t.Fatal(err)
	}
	w := &work{t: t, dir: filepath.Join(dir, "p"), root: t.TempDir()}
	w.must("init", w.dir, "--no-password", "--repository", "o/n", "--revision", strings.Repeat("0a", 20))
	return w
}

func (w *work) command(name string, args ...string) *exec.Cmd {
	w.t.Helper()
	folder, err := plainFolder()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.CommandContext(w.t.Context(), filepath.Join(folder, name), args...)
	if name != "weighmaster" { // a command that only the tests have
		self, err := exec.LookPath(name)
		if err != nil {
			w.t.Fatal(err)
		}
		cmd.Path = self
	}
	cmd.Env = append(os.Environ(), machineRootVariable+"="+w.root)
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// run runs weighmaster on the project.
func (w *work) run(args ...string) (code int, said string) {
	w.t.Helper()
	if args[0] != "init" {
		args = append([]string{"--project", w.dir}, args...)
	}
	cmd := w.command("weighmaster", args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		w.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func (w *work) must(args ...string) string {
	w.t.Helper()
	code, said := w.run(args...)
	if code != exitHolds {
		w.t.Fatalf("%s: exit code %d:\n%s", strings.Join(args, " "), code, said)
	}
	return said
}

// step is the arguments of a command that makes out.bin, after what the shell does before.
func step(before string, flags ...string) []string {
	return append(append([]string{"exec", "--name", "step", "--output", "out.bin"}, flags...), "--", "/bin/sh", "-c", before+"head -c 200000 /dev/zero > out.bin")
}

type shownStatus struct {
	Stages  []stageStatus  `json:"stages"`
	Running []runningStage `json:"running"`
}

func (w *work) status() shownStatus {
	w.t.Helper()
	cmd := w.command("weighmaster", "--project", w.dir, "status", "--json")
	out, err := cmd.Output()
	var s shownStatus
	if err != nil || json.Unmarshal(out, &s) != nil {
		w.t.Fatalf("status: %v: %s", err, out)
	}
	return s
}

// runs is how many runs of the step the ledger has.
func (s shownStatus) runs() int {
	for _, stage := range s.Stages {
		if stage.Stage == "step" {
			return stage.Runs
		}
	}
	return 0
}

func (w *work) has(name ...string) bool {
	_, err := os.Lstat(filepath.Join(append([]string{w.dir, "work"}, name...)...))
	return err == nil
}

// crashAt is the point at which the command "crashing" kills itself.
const crashAt = "WEIGHMASTER_TEST_CRASH"

// crashing is weighmaster exec that dies at one point, as kill -9 and a power cut do.
func crashing() {
	at := os.Getenv(crashAt)
	die := func(point string) {
		if point == at {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	if err := runCrashing(os.Args[1], die); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitUndecided)
	}
	os.Exit(exitHolds)
}

func runCrashing(dir string, die func(string)) error {
	a := &app{out: os.Stdout, err: os.Stderr, in: os.Stdin, project: dir}
	ctx := context.Background()
	p, err := a.open(ctx, true)
	if err != nil {
		return err
	}
	defer p.close()
	r, err := a.runner(ctx, p)
	if err != nil {
		return err
	}
	args := step("")
	with, err := json.Marshal(map[string]any{"command": args[6:], "outputs": []string{"out.bin"}})
	if err != nil {
		return err
	}
	r.Pipeline.Stages = append(r.Pipeline.Stages, schemas.StageDecl{Name: "step", Uses: "exec", With: with, Signer: "producer", Inputs: map[string]string{}})
	r.Only = []string{"step"}
	r.Stages["exec"] = dyingStage{r.Stages["exec"], die}
	r.Objects = &dyingObjects{Objects: r.Objects, die: die}
	appending, n := r.Append, 0
	r.Append = func(ctx context.Context, bundle []byte) error {
		n++
		die(fmt.Sprintf("before append %d", n))
		err := appending(ctx, bundle)
		die(fmt.Sprintf("after append %d", n))
		return err
	}
	r.Observe = func(e stages.Event) { die(e.Kind) }
	_, err = r.Run(ctx)
	return err
}

type dyingStage struct {
	stages.Stage
	die func(string)
}

func (s dyingStage) Run(ctx context.Context, run *stages.Run) (*stages.Outcome, error) {
	out, err := s.Stage.Run(ctx, run)
	s.die("the tool has ended")
	return out, err
}

func (s dyingStage) Resolve(ctx context.Context, run *stages.Run) ([]stages.Dependency, error) {
	return s.Stage.(stages.Resolver).Resolve(ctx, run)
}

type dyingObjects struct {
	stages.Objects
	die func(string)
	n   int
}

func (o *dyingObjects) Put(ctx context.Context, mediaType string, public bool, r io.Reader) (godigest.Digest, int64, error) {
	o.n++
	o.die(fmt.Sprintf("before put %d", o.n))
	d, size, err := o.Objects.Put(ctx, mediaType, public, r)
	o.die(fmt.Sprintf("after put %d", o.n))
	return d, size, err
}

// Windows of failure: the process that runs a stage dies at every point between
// its start and its end, the tool's success and the record among them.
func TestARunDiesAtEveryPoint(t *testing.T) {
	points := []string{"started", "the tool has ended"}
	for n := 1; n <= 5; n++ { // stderr, stdout, samples, receipt, result
		points = append(points, fmt.Sprintf("before put %d", n), fmt.Sprintf("after put %d", n))
	}
	points = append(points, "before append 1", "after append 1", "finished")
	w := newWork(t, t.TempDir())
	for i, point := range points {
		fresh := filepath.Join(t.TempDir(), "p")
		if err := os.CopyFS(fresh, os.DirFS(w.dir)); err != nil {
			t.Fatal(err)
		}
		one := &work{t: t, dir: fresh, root: t.TempDir()}
		cmd := one.command("crashing", fresh)
		cmd.Env = append(cmd.Env, crashAt+"="+point)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil || !strings.Contains(cmd.ProcessState.String(), "killed") {
			t.Fatalf("%s: it did not die there: %v: %s", point, err, out)
		}
		recorded := point == "after append 1" || point == "finished"
		s := one.status()
		for _, r := range s.Running {
			if r.Standing != stages.Interrupted {
				t.Errorf("%s: the dead run is called %s: %s", point, r.Standing, r.Why)
			}
		}
		if (len(s.Running) != 1) != (point == "finished") || s.runs() > 0 != recorded {
			t.Errorf("%s: %d unfinished and %d recorded runs", point, len(s.Running), s.runs())
		}
		said := one.must(step("")...)
		if recorded != strings.Contains(said, "complete already, by the ledger") {
			t.Errorf("%s: the next run said\n%s", point, said)
		}
		if !recorded && !strings.Contains(said, "its run of ") {
			t.Errorf("%s: the interruption was not told:\n%s", point, said)
		}
		if point != "finished" && !strings.Contains(said, "did not end by itself") {
			t.Errorf("%s: the locks that were left were not told:\n%s", point, said)
		}
		s = one.status()
		if want := map[bool]int{true: 1, false: 2}[recorded]; len(s.Running) != 0 || s.runs() != want {
			t.Errorf("%s: at the end %d unfinished and %d recorded runs, want 0 and %d", point, len(s.Running), s.runs(), want)
		}
		if i > 0 && one.has("step.candidate-1", "out.bin") == recorded {
			t.Errorf("%s: the output that nobody recorded was not kept as a candidate, or one that was recorded was moved", point)
		}
		one.must("log", "verify")
	}
	fmt.Printf("a run that dies: %d crashes injected: %d survived\n", len(points), len(points))
}

// The program is killed at moments that nobody chose.
func TestARunIsKilledAtAnyMoment(t *testing.T) {
	const kills = 10
	w := newWork(t, t.TempDir())
	begin := time.Now()
	w.must(step("sleep 0.2; ")...)
	whole := time.Since(begin)
	died := 0
	for i := range kills {
		name := "step" + strconv.Itoa(i)
		args := step("sleep 0.2; ")
		args[2] = name
		cmd := w.command("weighmaster", append([]string{"--project", w.dir}, args...)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(whole * time.Duration(i+1) / (kills + 1))
		_ = cmd.Process.Kill()
		if err := cmd.Wait(); err != nil {
			died++
		}
		for _, r := range w.status().Running {
			if r.Stage == name && r.Standing != stages.Interrupted {
				t.Errorf("kill %d: the dead run is called %s: %s", i, r.Standing, r.Why)
			}
		}
		w.must(args...)
		if !w.has(name, "out.bin") {
			t.Errorf("kill %d: no output", i)
		}
	}
	w.must("log", "verify")
	if died < kills/2 {
		t.Errorf("only %d of %d died of it", died, kills)
	}
	fmt.Printf("a run that is killed: %d crashes injected: %d survived\n", died, died)
}

// The disk is full at ever later places: output, evidence, ledger, progress.
func TestTheDiskFillsDuringARun(t *testing.T) {
	dir := t.TempDir()
	size := 4096
	mount := func(flags uintptr) error {
		return syscall.Mount("tmpfs", dir, "tmpfs", flags, fmt.Sprintf("size=%dk", size))
	}
	if err := mount(0); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("a small file system cannot be mounted: %v; run as root", err)
		}
		t.Skipf("mounting a small file system needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	w := newWork(t, dir)
	w.must(step("")...)
	filler := filepath.Join(dir, "filler")
	full := map[string]int{}
	for i := range 10 {
		var st syscall.Statfs_t
		if err := syscall.Statfs(dir, &st); err != nil {
			t.Fatal(err)
		}
		// Room for the output (200 KB) and a little less or more.
		room := int64(i) * 40 << 10
		if err := os.WriteFile(filler, make([]byte, max(0, int64(st.Bavail)*st.Bsize-room)), 0o644); err != nil {
			t.Fatal(err)
		}
		args := step("")
		args[2] = "step" + strconv.Itoa(i)
		code, said := w.run(args...)
		if code != exitHolds {
			where := "elsewhere"
			switch {
			case strings.Contains(said, "stage step"+strconv.Itoa(i)+" ran (failed)"), strings.Contains(said, "the command ended with"):
				where = "output"
			case strings.Contains(said, "ledger"):
				where = "ledger"
			case strings.Contains(said, "could not be recorded"):
				where = "evidence"
			}
			full[where]++
			if !strings.Contains(said, "no space left") && !strings.Contains(said, "disk is full") && !strings.Contains(said, "disk I/O error") {
				t.Errorf("room for %d bytes: it ended with %d and does not say why:\n%s", room, code, said)
			}
		}
		if strings.Contains(said, "the word of progress cannot be written") {
			full["progress"]++
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		w.must(args...)
		w.must("log", "verify")
		if len(w.status().Running) != 0 {
			t.Errorf("room for %d bytes: something is still unfinished", room)
		}
		size += 600
		if err := mount(syscall.MS_REMOUNT); err != nil {
			t.Fatal(err)
		}
	}
	total := 0
	for _, n := range full {
		total += n
	}
	if total < 4 {
		t.Errorf("the disk was full %d times: %v", total, full)
	}
	fmt.Printf("a run on a disk that fills: %d faults injected (%v): %d survived\n", total, full, total)
}
