package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weighmaster/weighmaster/fixtures"
	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/stages/isolation"
)

// realProject is a project whose pipeline runs llama.cpp's own tools, driven by
// the weighmaster command as a user drives it.
type realProject struct {
	t    *testing.T
	self string   // the command
	dir  string   // the project
	env  []string // of the command
}

// realTools finds what the real tools need, or skips; under CI=true it fails.
func realTools(t *testing.T) (source, python, ccache string) {
	t.Helper()
	if underRace {
		t.Skip("the tools run in the interop suite, which is not instrumented")
	}
	if runtime.GOOS != "linux" {
		t.Skip("the tools' box of this test is that of Linux")
	}
	for _, v := range []struct {
		value         *string
		name, install string
	}{
		{&source, "WEIGHMASTER_LLAMACPP_SOURCE", "install-llamacpp-source"},
		{&python, "WEIGHMASTER_CONVERTER_PYTHON", "install-converter"},
		{&ccache, "WEIGHMASTER_LLAMACPP_CCACHE", "install-llamacpp-source"},
	} {
		if *v.value = os.Getenv(v.name); *v.value == "" {
			shared.Missing(t, "%s is not set; see .ci/interop/%s", v.name, v.install)
		}
	}
	if err := isolation.BoxWorks(isolation.Bubblewrap); err != nil {
		shared.Missing(t, "%v", err)
	}
	for _, tool := range []string{"cc", "c++", "ld", "cmake", "ninja", "ccache", "git"} {
		if _, err := exec.LookPath(tool); err != nil {
			shared.Missing(t, "%v", err)
		}
	}
	return source, python, ccache
}

// newRealProject makes a project by init, as the README says, and edits it as its comments ask.
func newRealProject(t *testing.T, endpoint string) *realProject {
	t.Helper()
	source, python, ccache := realTools(t)
	self, err := exec.LookPath("weighmaster")
	if err != nil {
		t.Fatal(err)
	}
	publisher, err := fixtures.ModelPublisher()
	if err != nil {
		t.Fatal(err)
	}
	p := &realProject{t: t, self: self, dir: filepath.Join(t.TempDir(), "p"), env: append(os.Environ(), "HF_ENDPOINT="+endpoint)}
	if code, out := runCommand(t, self, "init", p.dir, "--tools", "llama.cpp", "--rented", "azure", "--repository", publisher.Repository, "--revision", publisher.Revision, "--no-password"); code != 0 {
		t.Fatalf("init: exit code %d: %s", code, out)
	}
	if err := writeEvaluation(p.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(p.dir, "ccache")); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"llama.cpp": source, "python": filepath.Dir(filepath.Dir(python)), "ccache": ccache} {
		if err := os.Symlink(to, filepath.Join(p.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	commit := `"EDIT(the full commit of llama.cpp, 40 hex digits)"`
	// A model of two million parameters loses more by four bits than those that the template's numbers come from.
	p.edit("policy.yaml", commit, realCommit, "state: PowerState/deallocated}", "state: PowerState/deallocated, standIn: true}", "value: 0.039, identity", "value: 0.15, identity", "value: 0.9, identity", "value: 0.8, identity", "value: 0.1, origin", "value: 0.2, origin")
	p.edit("pipeline.yaml",
		commit, realCommit,
		`"EDIT(private file of schema compute/v1 that names the rented machine)"`, "compute.yaml",
		"q4-reloaded]}}", "q4-reloaded], poll: {attempts: 4, interval: 10ms}}}")
	return p
}

// realCommit is the commit of the source that install-llamacpp-source makes.
const realCommit = "ed140ae7b87a2f5e642c430cc3cd738ea2550db1"

// edit replaces words in a file of the project, where they stand exactly once.
func (p *realProject) edit(name string, pairs ...string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	body, err := os.ReadFile(path)
	if err != nil {
		p.t.Fatal(err)
	}
	for i := 0; i < len(pairs); i += 2 {
		if n := bytes.Count(body, []byte(pairs[i])); n != 1 {
			p.t.Fatalf("%s: %q is there %d times, want once", name, pairs[i], n)
		}
		body = bytes.Replace(body, []byte(pairs[i]), []byte(pairs[i+1]), 1)
	}
	p.replace(name, body, 0o644)
}

// replace puts another file in a file's place.
func (p *realProject) replace(name string, body []byte, mode os.FileMode) {
	p.t.Helper()
	path := filepath.Join(p.dir, filepath.FromSlash(name))
	if err := os.WriteFile(path+".new", body, 0o644); err != nil {
		p.t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(path+".new", mode), os.Rename(path+".new", path)); err != nil {
		p.t.Fatal(err)
	}
}

// upTo leaves the pipeline's stages up to a name, and gives all of it back.
func (p *realProject) upTo(stage string) (whole []byte) {
	p.t.Helper()
	whole, err := os.ReadFile(filepath.Join(p.dir, "pipeline.yaml"))
	if err != nil {
		p.t.Fatal(err)
	}
	stages := regexp.MustCompile(`(?m)^  - (?:\{)?name: ([a-z0-9.-]+)`).FindAllSubmatchIndex(whole, -1)
	for i, m := range stages {
		if string(whole[m[2]:m[3]]) != stage {
			continue
		}
		if i+1 < len(stages) {
			p.replace("pipeline.yaml", whole[:stages[i+1][0]], 0o644)
		}
		return whole
	}
	p.t.Fatalf("the pipeline has no stage %s", stage)
	return nil
}

// command runs weighmaster on the project.
func (p *realProject) command(args ...string) (code int, said string) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), p.self, append([]string{"--project", p.dir}, args...)...)
	cmd.Env = p.env
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// must runs a command that has to end well.
func (p *realProject) must(args ...string) string {
	p.t.Helper()
	start := time.Now()
	code, out := p.command(args...)
	if code != 0 {
		p.t.Fatalf("%s: exit code %d\n%s", strings.Join(args, " "), code, out)
	}
	p.t.Logf("%s: %.1f s\n%s", strings.Join(args, " "), time.Since(start).Seconds(), out)
	return out
}

// refused runs a command that has to end with a code and to say why.
func (p *realProject) refused(code int, reason string, args ...string) string {
	p.t.Helper()
	start := time.Now()
	got, out := p.command(args...)
	if got != code || !regexp.MustCompile(reason).MatchString(out) || strings.Contains(out, "goroutine ") {
		p.t.Fatalf("%s: exit code %d, want %d and %q; it said:\n%s", strings.Join(args, " "), got, code, reason, out)
	}
	p.t.Logf("%s: exit code %d after %.1f s: %s", strings.Join(args, " "), got, time.Since(start).Seconds(), strings.TrimSpace(lastLines(out, 3)))
	return out
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// copy gives another test the project as it is. What stages made is linked, since
// it is read-only and faults replace whole files; all else is copied.
func (p *realProject) copy(t *testing.T) *realProject {
	t.Helper()
	to := &realProject{t: t, self: p.self, dir: filepath.Join(t.TempDir(), "p"), env: p.env}
	err := filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(p.dir, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to.dir, name)
		switch {
		case d.IsDir() && strings.HasPrefix(d.Name(), "_"): // the build's objects
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(target, 0o755)
		case d.Type()&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			return errors.Join(err, os.Symlink(link, target))
		}
		if info, err := d.Info(); err == nil && info.Mode().Perm()&0o222 == 0 && strings.HasPrefix(name, "work"+string(filepath.Separator)) {
			return os.Link(path, target)
		}
		return copyFile(path, target)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	body, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, body, info.Mode().Perm())
}

// TestRealTools takes the example model through the whole pipeline with the real
// llama.cpp and the real converter, then breaks one thing at a time.
func TestRealTools(t *testing.T) {
	realTools(t)
	hub, err := demoHub()
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Close()
	p := newRealProject(t, hub.URL)
	p.azure()
	p.rent()
	start := time.Now()
	whole := p.upTo("runtime")
	p.must("run")
	built := time.Since(start)
	p.keepBuild()
	p.replace("pipeline.yaml", whole, 0o644)
	p.must("run")
	green := time.Since(start)
	p.delivered()
	refused := 0
	for _, f := range realFaults {
		t.Run(f.name, func(t *testing.T) {
			f.do(p.copy(t))
			refused++
		})
	}
	fmt.Printf("real tools: built in %.0f s, the whole pipeline in %.0f s, %d faults in %.0f s, each ended as it must\n",
		built.Seconds(), green.Seconds(), refused, (time.Since(start) - green).Seconds())
}

// keepBuild leaves what was built where WEIGHMASTER_LLAMACPP_BUILD says, for the tests of single stages.
func (p *realProject) keepBuild() {
	p.t.Helper()
	to := os.Getenv("WEIGHMASTER_LLAMACPP_BUILD")
	if to == "" {
		return
	}
	if err := os.CopyFS(to, os.DirFS(filepath.Join(p.dir, "work", "runtime", "runtime"))); err != nil && !errors.Is(err, fs.ErrExist) {
		p.t.Fatal(err)
	}
}

// delivered verifies every delivered file as its recipient would.
func (p *realProject) delivered() {
	p.t.Helper()
	files, err := filepath.Glob(filepath.Join(p.dir, "delivered", "*.gguf"))
	if err != nil || len(files) != 4 {
		p.t.Fatalf("delivered: %v, %v; want four files", files, err)
	}
	for _, f := range files {
		p.must("verify", f, "--evidence", f+packageSuffix, "--trust", filepath.Join(p.dir, "trust.yaml"), "--decision", "redistribute")
	}
}
