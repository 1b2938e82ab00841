//go:build linux

package isolation

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"

	"github.com/weighmaster/weighmaster/schemas"
)

func fakeBwrap(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if script != "" {
		if err := os.WriteFile(filepath.Join(dir, "bwrap"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	old := ownedByRoot
	t.Cleanup(func() { ownedByRoot = old })
	ownedByRoot = func(string) error { return nil } // the tests' own user's
}

// A bwrap that comes first on the PATH could show the probes a box, and the tools none.
func TestABubblewrapOfAnotherUserIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("giving a file to root or to another user needs root")
	}
	own := ownedByRoot
	fakeBwrap(t, "exit 0")
	ownedByRoot = own
	dir := os.Getenv("PATH")
	file := filepath.Join(dir, "bwrap")
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		make  func()
		wants string
	}{
		"another user's program":         {func() { do(os.Chown(file, UID, UID)) }, "bwrap belongs to user 65534"},
		"a program that all may write":   {func() { do(os.Chmod(file, 0o757)) }, "with mode 757"},
		"a folder of another user":       {func() { do(os.Chown(dir, UID, UID)) }, "belongs to user 65534"},
		"a folder that a group may fill": {func() { do(os.Chmod(dir, 0o775)) }, "with mode 775"},
	} {
		t.Run(name, func(t *testing.T) {
			do(errors.Join(os.Chown(file, 0, 0), os.Chmod(file, 0o755), os.Chown(dir, 0, 0), os.Chmod(dir, 0o755)))
			c.make()
			if _, err := findBubblewrap(); err == nil || !strings.Contains(err.Error(), c.wants) || !strings.Contains(err.Error(), "decides what a box is") {
				t.Errorf("got %v, want %q", err, c.wants)
			}
		})
	}
	if err := ownedByRoot("/usr/bin/true"); err != nil {
		t.Errorf("a program of the system: %v", err)
	}
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	for name, c := range map[string]struct{ script, says string }{
		"no bubblewrap":             {"", "apt-get install bubblewrap"},
		"namespaces are refused":    {"echo 'bwrap: No permissions to create new namespace' >&2; exit 1", "No permissions to create new namespace; this user may make no namespaces: allow"},
		"an old one":                {"echo 'bwrap: Unknown option --disable-userns' >&2; exit 1", "Unknown option --disable-userns"},
		"it says nothing and fails": {"exit 7", "exit status 7"},
	} {
		t.Run(name, func(t *testing.T) {
			fakeBwrap(t, c.script)
			if _, err := findBubblewrap(); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want it to say %q", err, c.says)
			}
		})
	}
}

// Without bubblewrap the best box is one of Landlock, and says that it is weaker.
func TestTheBestBoxWithoutBubblewrap(t *testing.T) {
	if os.Getenv("BEST_BOX") == "" {
		needs(t, Landlock)
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTheBestBoxWithoutBubblewrap$", "-test.v")
		cmd.Env = append(os.Environ(), "BEST_BOX=1", "PATH="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("%v %s", err, out)
		}
		return
	}
	box := openBox(t, newBench(t).profile(schemas.Box{}))
	if weaker, _ := box.Record()["weaker"].([]string); box.Method() != Landlock || len(weaker) == 0 || box.Facts()[schemas.FactBox] != "landlock" {
		t.Errorf("got %v, %v", box.Record(), box.Facts())
	}
}

func TestWhatIsAdmittedIsRecorded(t *testing.T) {
	for _, m := range boxesHere(t) {
		box := openBox(t, newBench(t).profile(schemas.Box{Method: string(m), Admit: []string{"network", "gpu"}}))
		r, f := box.Record(), box.Facts()
		if admitted, _ := r["admitted"].([]string); strings.Join(admitted, ",") != "gpu,network" || f[schemas.FactAdmitted] != "gpu,network" || f[schemas.FactNetwork] != schemas.NetworkAdmitted || r["gpu"] == nil {
			t.Errorf("%s: got %v, %v", m, r, f)
		}
		if got := says(t, box, "echo runs"); got != "runs" {
			t.Errorf("%s: got %q", m, got)
		}
	}
}

// Where the box gives the guard no capability, Landlock alone denies execution, which is recorded.
func TestWithoutCapabilitiesLandlockDeniesExecution(t *testing.T) {
	needs(t, Bubblewrap)
	needs(t, Landlock)
	m, err := bubblewrap()
	if err != nil {
		t.Fatal(err)
	}
	box := openBox(t, newBench(t).profile(schemas.Box{Method: "bubblewrap"}))
	cmd, err := box.bwrapCommand(t.Context(), maker{path: m.path}, []string{"/bin/sh", "-c", "cp /bin/true here; ./here && echo ran || echo refused"})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), "refused") {
		t.Errorf("got %v, %s", err, out)
	}
}

func TestTheRefusedCallsHaveNamesEverywhere(t *testing.T) {
	for _, a := range []*arch.Info{arch.X86_64, arch.AARCH64} {
		for _, list := range [][]string{socketCalls, keyCalls, processCalls} {
			for _, name := range list {
				if _, ok := a.SyscallNames[name]; !ok {
					t.Errorf("%s has no system call %s", a.Name, name)
				}
			}
		}
	}
}

// A guard that cannot close its box does not start the program.
func TestAGuardThatCannotCloseTheBoxStartsNothing(t *testing.T) {
	for _, m := range boxesHere(t) {
		for name, spoil := range map[string]func(*guardJob){
			"a folder that is not there":  func(j *guardJob) { j.Dir = "/absent" },
			"a mount point that is none":  func(j *guardJob) { j.NoExec = []string{"/usr/share"} },
			"a call that nobody knows":    func(j *guardJob) { j.Refuse = []string{"no_such_call"} },
			"a program that is not there": func(j *guardJob) { j.Program = "/usr/bin/absent" },
		} {
			p := newBench(t).profile(schemas.Box{Method: string(m)})
			p.adjust = func(args []string, job *guardJob) []string { spoil(job); return args }
			cmd, err := openBox(t, p).Command(t.Context(), "/bin/sh", "-c", "echo it runs")
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.CombinedOutput()
			if err == nil || strings.Contains(string(out), "it runs") || !strings.Contains(string(out), "enter the box: ") || !strings.Contains(string(out), "the program was not started") {
				t.Errorf("%s, %s: got %v, %s", m, name, err, out)
			}
		}
	}
}
