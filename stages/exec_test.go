package stages

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/isolation"
)

func execRun(t *testing.T, with map[string]any) *Run {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the commands of this test are those of Unix")
	}
	needBox(t)
	return newRun(t, "tool", with)
}

// needBox skips a test where the best box cannot be made.
func needBox(t *testing.T) {
	t.Helper()
	if err := isolation.BoxWorks(isolation.Bubblewrap); err != nil {
		shared.Missing(t, "%v", err)
	}
}

func shell(script string, more map[string]any) map[string]any {
	with := map[string]any{"command": []string{"sh", "-c", script}}
	for k, v := range more {
		with[k] = v
	}
	return with
}

func logOf(t *testing.T, run *Run, out *Outcome, name string) string {
	t.Helper()
	for _, e := range out.Evidence {
		if e.Name == name {
			body, err := run.Objects.Get(t.Context(), e.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return string(body)
		}
	}
	t.Fatalf("no %s", name)
	return ""
}

func TestExecRecordsToolOutputsLogsAndWhatWasNotDeclared(t *testing.T) {
	t.Setenv("WANTED", "yes")
	t.Setenv("HF_TOKEN", "hf_secret")
	run := execRun(t, shell(`echo "$WANTED:$HF_TOKEN:$(cat)"; cat {input/model} > out.txt; echo more > stray.txt; echo words >&2`,
		map[string]any{"env": []string{"WANTED", "PATH"}, "outputs": []string{"out.txt"}, "stdin": "in.txt"}))
	for name, body := range map[string]string{"in.txt": "typed", "model.txt": "weights"} {
		if err := os.WriteFile(filepath.Join(run.Project, name), []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run.Inputs["model"] = Artifact{Name: "model.txt", Path: filepath.Join(run.Project, "model.txt")}
	out, err := Exec{}.Run(t.Context(), run)
	if err != nil || out.Verdict != schemas.Passed || out.ExitStatus != 0 {
		t.Fatalf("%v %+v", err, out)
	}
	if got := logOf(t, run, out, "log/stdout"); got != "yes::typed\n" {
		t.Errorf("stdout %q: want the allowed variable, no token, and the standard input", got)
	}
	if got := logOf(t, run, out, "log/stderr"); got != "words\n" {
		t.Errorf("stderr %q", got)
	}
	if body, err := os.ReadFile(out.Output.Path); err != nil || string(body) != "weights" {
		t.Errorf("output %q %v", body, err)
	}
	if st, err := os.Stat(out.Output.Path); err != nil || st.Mode().Perm() != 0o444 {
		t.Errorf("mode %v", st.Mode())
	}
	if out.Facts["undeclared"] != "stray.txt" {
		t.Errorf("undeclared: %q", out.Facts["undeclared"])
	}
	if len(out.Dependencies) == 0 || out.Dependencies[0].Name != "tool/sh" || out.Dependencies[0].Digest.Validate() != nil {
		t.Errorf("dependencies %+v", out.Dependencies)
	}
}

func TestExecThatFailsIsRecordedAsFailed(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		more   map[string]any
		status int
		want   string
	}{
		"another exit status":       {"echo made > out; echo broken >&2; exit 3", map[string]any{"outputs": []string{"out"}}, 3, "exit status 3: broken"},
		"a missing output":          {"true", map[string]any{"outputs": []string{"out"}}, 1, "made no regular file out"},
		"a link for an output":      {"ln -s /etc/passwd out", map[string]any{"outputs": []string{"out"}, "env": []string{"PATH"}}, 1, "made no regular file out"},
		"a folder for an output":    {"mkdir out", map[string]any{"outputs": []string{"out"}, "env": []string{"PATH"}}, 1, "made no regular file out"},
		"longer than it may":        {"sleep 60 & wait", map[string]any{"timeout": "100ms", "env": []string{"PATH"}}, -1, "ran longer than 100ms"},
		"a command without a shell": {"kill -9 $$", nil, 137, "as after signal 9"},
	} {
		t.Run(name, func(t *testing.T) {
			run := execRun(t, shell(c.script, c.more))
			out, err := Exec{}.Run(t.Context(), run)
			if err != nil {
				t.Fatal(err)
			}
			if out.Verdict != schemas.Failed || out.ExitStatus != c.status || !strings.Contains(out.Failure, c.want) || out.Output != nil {
				t.Errorf("%s, status %d: %q; want status %d and %q", out.Verdict, out.ExitStatus, out.Failure, c.status, c.want)
			}
			if name == "another exit status" && !exists(filepath.Join(run.Dir, "out")) {
				t.Error("the candidate is gone")
			}
		})
	}
}

func TestExecIsRefusedBeforeItRuns(t *testing.T) {
	for name, c := range map[string]struct {
		with map[string]any
		want string
	}{
		"an output that is there":   {shell("true", map[string]any{"outputs": []string{"there"}}), "is there before the command ran"},
		"an output that climbs":     {shell("true", map[string]any{"outputs": []string{"../x"}}), "want a relative name"},
		"an input that is not":      {shell("cat {input/none}", nil), `there is no input "none"`},
		"a program that is not":     {map[string]any{"command": []string{"no-such-program-here"}}, "executable file not found"},
		"a timeout that is no time": {shell("true", map[string]any{"timeout": "-1s"}), "want a duration"},
	} {
		t.Run(name, func(t *testing.T) {
			run := execRun(t, c.with)
			if err := os.WriteFile(filepath.Join(run.Dir, "there"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := (Exec{}).Run(t.Context(), run); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestExecCancelledKillsTheWholeGroup(t *testing.T) {
	run := execRun(t, shell("(while :; do echo beat >> beats; sleep 0.01; done) & wait", nil))
	ctx, cancel := context.WithCancel(t.Context())
	beats := filepath.Join(run.Dir, "beats")
	go func() {
		for sizeOf(beats) == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	out, err := Exec{}.Run(ctx, run)
	if err != nil || !strings.Contains(out.Failure, "was stopped") {
		t.Fatalf("%v %+v", err, out)
	}
	size := sizeOf(beats)
	for range 20 {
		time.Sleep(10 * time.Millisecond)
	}
	if now := sizeOf(beats); now != size {
		t.Errorf("its child lives on: %d bytes became %d", size, now)
	}
}

func TestExecLogsAreBounded(t *testing.T) {
	run := execRun(t, shell("head -c 3000000 /dev/zero", map[string]any{"env": []string{"PATH"}}))
	out, err := Exec{}.Run(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	if got := logOf(t, run, out, "log/stdout"); len(got) > maxLog+100 || !strings.Contains(got, "\n[1951424 bytes left out]\n") {
		t.Errorf("%d bytes, ends in %q", len(got), got[len(got)-40:])
	}
}

func TestExecScriptsNameTheirInterpreter(t *testing.T) {
	run := execRun(t, map[string]any{"command": []string{"./make.sh"}, "env": []string{"PATH"}, "outputs": []string{"a", "sub/b"}})
	if err := os.WriteFile(filepath.Join(run.Project, "make.sh"), []byte("#!/usr/bin/env sh\necho a > a; mkdir sub; echo b > sub/b\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := Exec{}.Run(t.Context(), run)
	if err != nil || out.Verdict != schemas.Passed {
		t.Fatalf("%v %+v", err, out)
	}
	if len(out.Dependencies) < 2 || out.Dependencies[0].Name != "tool/make.sh" || out.Dependencies[1].Name != "tool/env" || out.Dependencies[2].Name != "tool/sh" {
		t.Errorf("dependencies %+v", out.Dependencies)
	}
	if ran, err := json.Marshal(out.Internal); err != nil || strings.Contains(string(ran), run.Project) || !strings.Contains(string(ran), `"program":"make.sh"`) {
		t.Errorf("recorded with a path of this machine: %s %v", ran, err)
	}
	if !out.Output.Multi || len(out.Output.Files) != 2 || out.Output.Name != "tool" {
		t.Errorf("output %+v", out.Output)
	}
	deps, err := Exec{}.Resolve(t.Context(), run)
	if err != nil || len(deps) != len(out.Dependencies) || deps[0] != out.Dependencies[0] {
		t.Errorf("resolved before the run: %+v %v", deps, err)
	}
}

// TestExecHashesLibrariesBesideTheProgram builds a program with a library at $ORIGIN by the C compiler.
func TestExecHashesLibrariesBesideTheProgram(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("ELF programs are run on Linux")
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		shared.Missing(t, "no C compiler cc")
	}
	run := execRun(t, map[string]any{"command": []string{"bin/tool"}, "outputs": []string{"out"}})
	dir := filepath.Join(run.Project, "bin")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"lib.c":  "int answer(void) { return 42; }",
		"main.c": "#include <stdio.h>\nint answer(void); int main(void) { FILE *f = fopen(\"out\", \"w\"); fprintf(f, \"%d\", answer()); return fclose(f); }",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"-shared", "-fPIC", "-o", "libanswer.so", "lib.c"},
		{"-o", "tool", "main.c", "-L.", "-lanswer", "-Wl,-rpath,$ORIGIN"},
	} {
		cmd := exec.CommandContext(t.Context(), cc, args...)
		cmd.Dir = dir
		if words, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, words)
		}
	}
	out, err := Exec{}.Run(t.Context(), run)
	if err != nil || out.Verdict != schemas.Passed {
		t.Fatalf("%v %+v", err, out)
	}
	if len(out.Dependencies) != 2 || out.Dependencies[1].Name != "library/libanswer.so" {
		t.Errorf("dependencies %+v", out.Dependencies)
	}
	ran := out.Internal["commands"].([]any)[0].(map[string]any)
	if system := ran["systemLibraries"].([]string); len(system) == 0 || len(ran["unresolvedLibraries"].([]string)) != 0 {
		t.Errorf("internal %+v", out.Internal)
	}
}

// TestTheInterpreterIsTheOneOfTheBoxsPath: bin of a root comes first there.
func TestTheInterpreterIsTheOneOfTheBoxsPath(t *testing.T) {
	root := t.TempDir()
	writeTree(t, root, map[string]string{"bin/sh": "#!/bin/dash\necho mine\n"})
	if err := os.Chmod(filepath.Join(root, "bin", "sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/bin/dash"); err != nil {
		shared.Missing(t, "/bin/dash: %v", err)
	}
	run := execRun(t, map[string]any{"command": []string{"./run"}, "box": map[string]any{"roots": []map[string]any{{"name": "own", "path": root}}}})
	writeTree(t, run.Project, map[string]string{"run": "#!/usr/bin/env sh\necho theirs\n"})
	if err := os.Chmod(filepath.Join(run.Project, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := Exec{}.Run(t.Context(), run)
	if err != nil || out.Verdict != schemas.Passed {
		t.Fatalf("%v %+v", err, out)
	}
	if got := logOf(t, run, out, "log/stdout"); got != "mine\n" {
		t.Fatalf("ran %q, want the root's sh", got)
	}
	want, err := readFile(t.Context(), "", filepath.Join(root, "bin", "sh"))
	if err != nil {
		t.Fatal(err)
	}
	if d := out.Dependencies[2]; d.Name != "tool/sh" || d.Digest != want.Sums.SHA256 {
		t.Errorf("dependencies %+v", out.Dependencies)
	}
}

func TestStdinIsBoundAndWatched(t *testing.T) {
	run := execRun(t, shell("cat; : > started; while [ ! -e go ]; do sleep 0.01; done", map[string]any{"stdin": "in.txt"}))
	in := filepath.Join(run.Project, "in.txt")
	if err := os.WriteFile(in, []byte("typed"), 0o644); err != nil {
		t.Fatal(err)
	}
	go func() {
		for !onDisk(run.Dir, "started") {
			time.Sleep(time.Millisecond)
		}
		swapFile(t, in, "other")
		swapFile(t, filepath.Join(run.Dir, "go"), "")
	}()
	out, err := Exec{}.Run(t.Context(), run)
	if err == nil || !strings.Contains(err.Error(), "in.txt was touched while the command ran") {
		t.Fatalf("%v %+v", err, out)
	}
	if d := out.Dependencies[len(out.Dependencies)-1]; d.Name != "corpus/stdin" || d.Digest != godigest.FromString("typed") {
		t.Errorf("dependencies %+v", out.Dependencies)
	}
}
