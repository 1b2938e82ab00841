package stages

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/isolation"
)

// needCompiler skips where nothing can be compiled in a box.
func needCompiler(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil || runtime.GOOS != "linux" {
		shared.Missing(t, "this test needs Linux and a C compiler")
	}
	if err := isolation.BoxWorks(isolation.Bubblewrap); err != nil {
		shared.Missing(t, "this test needs bubblewrap: %v", err)
	}
}

const greetSource = "const char *greeting(void) { return \"hello\"; }\n"

// buildLine is patch → build of a program with a library of its own.
func buildLine(t *testing.T, with map[string]any) *line {
	t.Helper()
	needCompiler(t)
	l := newLine(t)
	commit := sourceRepository(t, l.Project, map[string]string{
		"main.c": "#include <stdio.h>\nconst char *greeting(void);\nint main(void) { puts(greeting()); return 0; }\n", "greet.c": greetSource,
	})
	l.Stages["patch"], l.Stages["build"] = Patch{}, Build{}
	full := map[string]any{
		"compilers": []string{"cc", "ld"},
		"commands": [][]string{
			{"cc", "-shared", "-fPIC", "-Wl,-soname,libgreet.so.0", "-o", "{build}/libgreet.so.0.1", "{input/source}/greet.c"},
			{"ln", "-s", "libgreet.so.0.1", "{build}/libgreet.so.0"},
			{"cc", "-o", "{build}/hello", "{input/source}/main.c", "{build}/libgreet.so.0", "-Wl,-rpath,$ORIGIN"},
		},
		"products": []string{"hello", "lib*.so.0"},
	}
	for k, v := range with {
		full[k] = v
	}
	body, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := json.Marshal(map[string]any{"source": "upstream", "commit": commit})
	if err != nil {
		t.Fatal(err)
	}
	l.Pipeline.Stages = []schemas.StageDecl{
		{Name: "source", Uses: "patch", With: patch},
		{Name: "runtime", Uses: "build", Inputs: map[string]string{"source": "source"}, With: body},
	}
	return l
}

func TestBuildNamesSourceCompilersAndProducts(t *testing.T) {
	l := buildLine(t, nil)
	made := l.mustRun(t, "started source, finished source, started runtime, finished runtime")
	var names []string
	for _, f := range made["runtime"].Files {
		names = append(names, f.Name)
	}
	if !slices.Equal(names, []string{"hello", "libgreet.so.0"}) {
		t.Fatalf("products %v", names)
	}
	out, err := exec.Command(filepath.Join(made["runtime"].Path, "hello")).Output()
	if err != nil || string(out) != "hello\n" {
		t.Errorf("the product says %q, %v", out, err)
	}
	runs, results := l.recorded(t)
	facts := results[1].Facts
	if facts["commit"] != results[0].Facts["commit"] || facts["patch"] != "none" || facts["box"] != "bubblewrap" || facts["network"] != "denied" {
		t.Errorf("facts %v", facts)
	}
	needs := map[string]bool{}
	for _, d := range runs[1].Needs {
		needs[d.Name] = d.Digest != ""
	}
	if !needs["tool/cc"] || !needs["tool/ld"] || !needs["tool/ln"] {
		t.Errorf("dependencies %v", needs)
	}
	l.mustRun(t, "resumed source, resumed runtime")
}

// The same source and the same compilers give the same bytes, wherever the project lies.
func TestTwoBuildsGiveTheSameBytes(t *testing.T) {
	first, err := buildLine(t, nil).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := buildLine(t, nil).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if first["runtime"].Digest != second["runtime"].Digest {
		t.Errorf("got %s and %s", first["runtime"].Digest, second["runtime"].Digest)
	}
}

func TestBuildsThatFail(t *testing.T) {
	cc := func(args ...string) []string { return append([]string{"cc"}, args...) }
	for name, c := range map[string]struct {
		with map[string]any
		want string
	}{
		"a command that fails":         {map[string]any{"commands": [][]string{cc("-o", "{build}/hello", "{input/source}/none.c")}}, "command 1 (cc): the command ended with exit status 1"},
		"in the source":                {map[string]any{"commands": [][]string{cc("-c", "-o", "{input/source}/main.o", "{input/source}/main.c")}}, "command 1 (cc)"},
		"exit 0 without a product":     {map[string]any{"commands": [][]string{{"true"}}}, `made nothing that matches "hello"`},
		"a library that is no product": {map[string]any{"products": []string{"hello"}}, "it needs libgreet.so.0, which the build made and which is no product"},
		"libraries looked for by path": {map[string]any{"commands": [][]string{cc("-o", "{build}/hello", "{input/source}/main.c", "{input/source}/greet.c", "-Wl,-rpath,/opt/lib")}, "products": []string{"hello"}}, "want folders beside it ($ORIGIN) only"},
		"and in the working folder":    {map[string]any{"commands": [][]string{cc("-o", "{build}/hello", "{input/source}/main.c", "{input/source}/greet.c", "-Wl,-rpath,$ORIGIN:")}, "products": []string{"hello"}}, `looks for its libraries in ""`},
		"a link that leaves":           {map[string]any{"commands": [][]string{{"ln", "-s", "/etc/hostname", "{build}/hello"}}, "products": []string{"hello"}}, "a link has to stay inside"},
		"a folder for a product":       {map[string]any{"commands": [][]string{{"mkdir", "{build}/hello"}}, "products": []string{"hello"}}, "want a regular file"},
		"a climbing pattern":           {map[string]any{"products": []string{"../*"}}, "want a pattern of names below"},
		"a compiler that is not there": {map[string]any{"compilers": []string{"no-such-compiler"}}, "no-such-compiler"},
		"a command that takes long":    {map[string]any{"commands": [][]string{{"sleep", "60"}}, "timeout": "200ms"}, "ran longer than 200ms"},
	} {
		t.Run(name, func(t *testing.T) {
			l := buildLine(t, c.with)
			_, _, err := l.again(t)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if name == "in the source" && onDisk(l.Project, "work", "source", "source", "main.o") {
				t.Error("the source was written")
			}
		})
	}
}

// A source that no patch stage made has no commit: nothing is built from it.
func TestASourceOfUnknownOriginIsNotBuilt(t *testing.T) {
	run := newRun(t, "runtime", map[string]any{"compilers": []string{"cc"}, "commands": [][]string{{"true"}}, "products": []string{"x"}})
	dir := filepath.Join(run.Project, "loose")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "main.c"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	a, err := FolderArtifact(t.Context(), "loose", dir)
	if err != nil {
		t.Fatal(err)
	}
	run.Inputs["source"] = a
	if _, err := (Build{}).Run(t.Context(), run); err == nil || !strings.Contains(err.Error(), "no passed run of a patch stage made this folder") {
		t.Errorf("got %v", err)
	}
}
