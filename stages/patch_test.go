package stages

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/schemas"
)

const (
	helloSource = "#include <stdio.h>\n\nint main(void) {\n\tputs(\"hello\");\n\treturn 0;\n}\n"
	helloPatch  = "--- a/hello.c\n+++ b/hello.c\n@@ -3,4 +3,4 @@\n int main(void) {\n-\tputs(\"hello\");\n+\tputs(\"patched\");\n \treturn 0;\n }\n"
)

func gitIn(t testing.TB, dir string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("git")
	if err != nil {
		shared.Missing(t, "git is not installed")
	}
	cmd := exec.Command(path, append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_AUTHOR_DATE=2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// sourceRepository makes <project>/upstream with one commit of some files.
func sourceRepository(t testing.TB, project string, files map[string]string) (commit string) {
	t.Helper()
	dir := filepath.Join(project, "upstream")
	for name, body := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	gitIn(t, dir, "init", "-q")
	gitIn(t, dir, "add", "-A")
	gitIn(t, dir, "commit", "-q", "-m", "first")
	return gitIn(t, dir, "rev-parse", "HEAD")
}

// patchRun is a run of the patch stage on a repository of one C file.
func patchRun(t *testing.T, patch string) *Run {
	t.Helper()
	run := newRun(t, "source", nil)
	commit := sourceRepository(t, run.Project, map[string]string{"hello.c": helloSource, "README": "words\n"})
	with := map[string]any{"source": "upstream", "commit": commit}
	if patch != "" {
		if err := os.WriteFile(filepath.Join(run.Project, "p.patch"), []byte(patch), 0o644); err != nil {
			t.Fatal(err)
		}
		with["patch"] = "p.patch"
	}
	var err error
	if run.With, err = json.Marshal(with); err != nil {
		t.Fatal(err)
	}
	if err := schemas.StageParameters("patch", run.With); err != nil {
		t.Fatal(err)
	}
	return run
}

func TestPatchTellsWhatItChanged(t *testing.T) {
	run := patchRun(t, helloPatch)
	out, err := Patch{}.Run(t.Context(), run)
	if err != nil || out.Verdict != schemas.Passed {
		t.Fatalf("%v %+v", err, out)
	}
	upstream := filepath.Join(run.Project, "upstream")
	if out.Facts["commit"] != gitIn(t, upstream, "rev-parse", "HEAD") || out.Facts["tree"] != gitIn(t, upstream, "rev-parse", "HEAD^{tree}") ||
		out.Facts["changed"] != "hello.c" || out.Facts["changedFiles"] != "1" || !strings.HasPrefix(out.Facts["patch"], "sha256:") {
		t.Errorf("facts %v", out.Facts)
	}
	var record patchRecord
	if err := json.Unmarshal([]byte(logOf(t, run, out, "patch/changed")), &record); err != nil {
		t.Fatal(err)
	}
	if len(record.Files) != 1 || record.Files[0].Before.GitBlob != gitIn(t, upstream, "rev-parse", "HEAD:hello.c") || record.Files[0].After.SHA256 == record.Files[0].Before.SHA256 {
		t.Errorf("%+v", record)
	}
	if logOf(t, run, out, "patch/applied") != helloPatch {
		t.Error("the patch is no evidence")
	}
	names := map[string]Dependency{}
	for _, d := range out.Dependencies {
		names[d.Name] = d
	}
	if names["source/upstream"].GitOID != out.Facts["commit"] || names["patch/p.patch"].Digest.String() != out.Facts["patch"] || names["tool/git"].Digest == "" {
		t.Errorf("dependencies %+v", out.Dependencies)
	}
	body, err := os.ReadFile(filepath.Join(out.Output.Path, "hello.c"))
	if err != nil || !strings.Contains(string(body), "patched") {
		t.Errorf("%q %v", body, err)
	}
	if body, _ := os.ReadFile(filepath.Join(upstream, "hello.c")); string(body) != helloSource || gitIn(t, upstream, "status", "--porcelain") != "" {
		t.Error("the checkout was changed")
	}
	entries, err := os.ReadDir(run.Dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the source there is more: %v %v", entries, err)
	}
	if err := out.Output.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWithoutAPatchTheSourceIsTheCommit(t *testing.T) {
	run := patchRun(t, "")
	out, err := Patch{}.Run(t.Context(), run)
	if err != nil || out.Facts["patch"] != "none" || out.Facts["changedFiles"] != "0" || len(out.Output.Files) != 2 {
		t.Fatalf("%v %+v", err, out)
	}
}

func TestPatchesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		patch string
		edit  func(t *testing.T, run *Run)
		want  string
	}{
		"for another commit": {strings.Replace(helloPatch, "int main(void)", "int main(int argc)", 1), nil, "hello.c, hunk @@ -3,4 +3,4 @@"},
		"applied already":    {strings.NewReplacer(`-	puts("hello");`, `-	puts("old");`, `+	puts("patched");`, `+	puts("hello");`).Replace(helloPatch), nil, "applied already"},
		"outside":            {strings.ReplaceAll(helloPatch, "hello.c", "../hello.c"), nil, "outside of the source"},
		"a dirty checkout": {helloPatch, func(t *testing.T, run *Run) {
			if err := os.WriteFile(filepath.Join(run.Project, "upstream", "new.c"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}, `"new.c" is untracked`},
		"a missing patch": {helloPatch, func(_ *testing.T, run *Run) { os.Remove(filepath.Join(run.Project, "p.patch")) }, "p.patch"},
		"another commit": {helloPatch, func(_ *testing.T, run *Run) {
			run.With = json.RawMessage(`{"source":"upstream","commit":"` + strings.Repeat("1", 40) + `"}`)
		}, "want commit 1111"},
		"a branch":      {helloPatch, func(_ *testing.T, run *Run) { run.With = json.RawMessage(`{"source":"upstream","commit":"main"}`) }, "a full commit id"},
		"no repository": {helloPatch, func(_ *testing.T, run *Run) { os.RemoveAll(filepath.Join(run.Project, "upstream", ".git")) }, "no git repository"},
		"a folder for one": {helloPatch, func(_ *testing.T, run *Run) {
			run.With = []byte(strings.Replace(string(run.With), "p.patch", "upstream", 1))
		}, "want a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			run := patchRun(t, c.patch)
			if c.edit != nil {
				c.edit(t, run)
			}
			out, err := Patch{}.Run(t.Context(), run)
			if err == nil || !strings.Contains(err.Error(), c.want) || out != nil && out.Output != nil {
				t.Errorf("got %v, want %q in it and no output", err, c.want)
			}
		})
	}
}
