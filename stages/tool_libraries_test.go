package stages

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/schemas"
)

// compile builds C files of a folder, each line of commands by cc.
func compile(t *testing.T, dir string, files map[string]string, commands ...string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("ELF programs are run on Linux")
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		shared.Missing(t, "no C compiler cc")
	}
	writeTree(t, dir, files)
	for _, line := range commands {
		cmd := exec.CommandContext(t.Context(), cc, strings.Fields(line)...)
		cmd.Dir = dir
		if words, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("cc %s: %v: %s", line, err, words)
		}
	}
}

var answers = map[string]string{
	"one.c":   "int answer(void) { return 1; }",
	"two.c":   "int answer(void) { return 2; }",
	"outer.c": "int answer(void); int outer(void) { return answer() + 10; }",
	"main.c":  "#include <stdio.h>\nint answer(void); int main(void) { printf(\"%d\", answer()); return 0; }",
	"deep.c":  "#include <stdio.h>\nint outer(void); int main(void) { printf(\"%d\", outer()); return 0; }",
}

// TestTheHashedLibraryIsTheOneThatIsLoaded: the program tells by its answer
// which library the loader took; the digest must be that library's.
func TestTheHashedLibraryIsTheOneThatIsLoaded(t *testing.T) {
	needBox(t)
	for name, c := range map[string]struct {
		build  []string
		answer string
		loaded string // the library whose digest is wanted
	}{
		"at the program's own folder": {[]string{"-shared -fPIC -o bin/libanswer.so one.c", "-o bin/tool main.c -Lbin -lanswer -Wl,-rpath,$ORIGIN"}, "1", "bin/libanswer.so"},
		"the first of two folders": {[]string{"-shared -fPIC -o bin/libanswer.so one.c", "-shared -fPIC -o lib/libanswer.so two.c",
			"-o bin/tool main.c -Lbin -lanswer -Wl,-rpath,$ORIGIN/../lib:$ORIGIN"}, "2", "lib/libanswer.so"},
		"a link to it": {[]string{"-shared -fPIC -Wl,-soname,libanswer.so.1 -o lib/libanswer.so.1.2 two.c", "-o bin/tool main.c -l:libanswer.so.1.2 -Llib -Wl,-rpath,$ORIGIN/../lib"}, "2", "lib/libanswer.so.1.2"},
		"by the program's RPATH, from a library without": {[]string{"-shared -fPIC -o lib/libanswer.so two.c", "-shared -fPIC -o lib/libouter.so outer.c -Llib -lanswer",
			"-o bin/tool deep.c -Llib -louter -Wl,-rpath-link,lib -Wl,--disable-new-dtags,-rpath,$ORIGIN/../lib"}, "12", "lib/libanswer.so"},
		"not one of another word size": {[]string{"-shared -fPIC -o lib/libanswer.so two.c", "-o bin/tool main.c -Llib -lanswer -Wl,-rpath,$ORIGIN:$ORIGIN/../lib"}, "2", "lib/libanswer.so"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeTree(t, dir, map[string]string{"bin/x": "", "lib/x": ""})
			if strings.HasPrefix(name, "a link") {
				if err := os.Symlink("libanswer.so.1.2", filepath.Join(dir, "lib", "libanswer.so.1")); err != nil {
					t.Fatal(err)
				}
			}
			compile(t, dir, answers, c.build...)
			if strings.HasPrefix(name, "not one of another") {
				body, err := os.ReadFile(filepath.Join(dir, "lib", "libanswer.so"))
				if err != nil {
					t.Fatal(err)
				}
				decoy := slices.Clone(body)
				decoy[18], decoy[19] = 0xb7, 0 // e_machine: AArch64; ld.so passes it over
				if body[18] == 0xb7 {
					decoy[18] = 0x3e
				}
				if err := os.WriteFile(filepath.Join(dir, "bin", "libanswer.so"), decoy, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			run := newRun(t, "tool", map[string]any{})
			run.Inputs["runtime"] = folderOf(t, "runtime", dir)
			tool, err := runtimeTool(run, "runtime", "bin/tool")
			if err != nil {
				t.Fatal(err)
			}
			out := &Outcome{}
			res, failure, err := runTool(t.Context(), run, tool, out)
			if err != nil || failure != "" {
				t.Fatalf("%v %s", err, failure)
			}
			if string(res.Stdout) != c.answer {
				t.Errorf("the program answered %q, want %s", res.Stdout, c.answer)
			}
			want, err := readFile(t.Context(), "", filepath.Join(dir, filepath.FromSlash(c.loaded)))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(out.Dependencies, func(d Dependency) bool {
				return strings.HasPrefix(d.Name, "library/libanswer.so") && d.Digest == want.Sums.SHA256
			}) {
				t.Errorf("the library that was loaded, %s, is not named: %+v", c.loaded, out.Dependencies)
			}
		})
	}
}

// TestLibrariesThatAreNotTheBuildsAreRefused before anything runs.
func TestLibrariesThatAreNotTheBuildsAreRefused(t *testing.T) {
	needBox(t)
	elsewhere := t.TempDir()
	compile(t, elsewhere, answers, "-shared -fPIC -o libanswer.so one.c")
	for name, c := range map[string]struct {
		build string
		more  string // a folder to make
		want  string
	}{
		"one from elsewhere":      {"-o bin/tool main.c -L" + elsewhere + " -lanswer -Wl,-rpath," + elsewhere, "", "from outside of the build"},
		"one that is nowhere":     {"-o bin/tool main.c -L" + elsewhere + " -lanswer -Wl,-rpath,$ORIGIN", "", "the box has no libanswer.so"},
		"one in the empty folder": {"-o bin/tool main.c -L" + elsewhere + " -lanswer", "", "the box has no libanswer.so"},
		"variants by processor":   {"-o bin/tool main.c -L" + elsewhere + " -lanswer -Wl,-rpath,$ORIGIN", "bin/glibc-hwcaps/x86-64-v2/x", "which file is loaded depends on the processor"},
		"a word of the loader's":  {"-o bin/tool main.c -L" + elsewhere + " -lanswer -Wl,-rpath,/opt/$LIB", "", "names what only the loader knows"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeTree(t, dir, map[string]string{"bin/x": ""})
			if c.more != "" {
				writeTree(t, dir, map[string]string{c.more: ""})
			}
			compile(t, dir, answers, c.build)
			run := newRun(t, "tool", map[string]any{})
			run.Inputs["runtime"] = folderOf(t, "runtime", dir)
			tool, err := runtimeTool(run, "runtime", "bin/tool")
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := runTool(t.Context(), run, tool, &Outcome{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestAnotherLoaderIsHashed(t *testing.T) {
	needBox(t)
	dir := t.TempDir()
	compile(t, dir, answers, "-o tool main.c one.c", "-shared -fPIC -o none.so one.c")
	loaders, err := filepath.Glob("/lib64/ld-linux-*.so.*")
	if err != nil || len(loaders) == 0 {
		t.Skip("the loader of this system has another name")
	}
	body, err := os.ReadFile(loaders[0])
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "ld.so")
	if err := os.WriteFile(own, body, 0o755); err != nil {
		t.Fatal(err)
	}
	compile(t, dir, nil, "-o tool main.c one.c -Wl,--dynamic-linker="+own)
	run := newRun(t, "tool", map[string]any{})
	out := &Outcome{}
	res, failure, err := runTool(t.Context(), run, toolCommand{Program: filepath.Join(dir, "tool")}, out)
	if err != nil || failure != "" || string(res.Stdout) != "1" {
		t.Fatalf("%v %s %q", err, failure, res.Stdout)
	}
	if out.Dependencies[1].Name != "library/ld.so" {
		t.Errorf("dependencies %+v", out.Dependencies)
	}
}

func TestVariablesThatLoadCodeAreRefused(t *testing.T) {
	t.Setenv("LD_PRELOAD", "/tmp/x.so")
	run := execRun(t, shell("true", map[string]any{"env": []string{"LD_PRELOAD"}}))
	if _, err := (Exec{}).Run(t.Context(), run); err == nil || !strings.Contains(err.Error(), "LD_PRELOAD loads code") {
		t.Errorf("got %v", err)
	}
}

// TestHighWaterMarkOfAProcessInTheBox: the box's own processes are small, and its wait status tells nothing.
func TestHighWaterMarkOfAProcessInTheBox(t *testing.T) {
	needBox(t)
	dir := t.TempDir()
	compile(t, dir, map[string]string{"big.c": "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\nint main(void) { char *p = malloc(300 << 20); memset(p, 1, 300 << 20); usleep(400000); return p[5] - 1; }"}, "-O0 -o big big.c")
	run := newRun(t, "tool", map[string]any{})
	res, failure, err := runTool(t.Context(), run, toolCommand{Program: filepath.Join(dir, "big")}, &Outcome{})
	if err != nil || failure != "" || res.MaxRSS < 300<<20 || res.MaxRSS > 400<<20 {
		t.Errorf("%v %s: %d bytes, want 300 MiB and a little", err, failure, res.MaxRSS)
	}
}

func TestFactsOfSeveralCommandsAreTheWeakest(t *testing.T) {
	out := &Outcome{}
	for _, f := range []map[string]string{
		{schemas.FactBox: "bubblewrap", schemas.FactNetwork: schemas.NetworkDenied},
		{schemas.FactBox: "bubblewrap", schemas.FactNetwork: schemas.NetworkAdmitted, schemas.FactAdmitted: "network"},
		{schemas.FactBox: "landlock", schemas.FactNetwork: schemas.NetworkDenied},
	} {
		addBoxFacts(out, f)
	}
	if out.Facts[schemas.FactBox] != "bubblewrap, landlock" || out.Facts[schemas.FactNetwork] != schemas.NetworkAdmitted || out.Facts[schemas.FactAdmitted] != "network" {
		t.Errorf("got %v", out.Facts)
	}
	addBoxFacts(out, map[string]string{schemas.FactBox: "none", schemas.FactNetwork: schemas.NetworkNotEnforced})
	if out.Facts[schemas.FactBox] != "none" || out.Facts[schemas.FactNetwork] != schemas.NetworkNotEnforced {
		t.Errorf("got %v", out.Facts)
	}
}

func TestHeadAndTailOfALogAreKept(t *testing.T) {
	all := strings.Repeat("0123456789", 30)
	for _, step := range []int{1, 3, 7, 40, 300} {
		b := &headTail{limit: 20}
		for i := 0; i < len(all); i += step {
			if n, err := b.Write([]byte(all[i:min(i+step, len(all))])); err != nil || n != min(step, len(all)-i) {
				t.Fatalf("%d %v", n, err)
			}
		}
		if got := string(b.bytes()); got != "0123456789\n[280 bytes left out]\n0123456789" {
			t.Errorf("by %d: %q", step, got)
		}
	}
	for n := range 21 {
		b := &headTail{limit: 20}
		b.Write([]byte(all[:n]))
		if string(b.bytes()) != all[:n] {
			t.Errorf("%d bytes became %q", n, b.bytes())
		}
	}
}
