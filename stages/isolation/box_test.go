package isolation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/schemas"
)

// bench is a folder with an input, a foreign file and a folder to write to.
type bench struct{ dir, input, out string }

func newBench(t *testing.T) bench {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := bench{dir: dir, input: filepath.Join(dir, "model.gguf"), out: filepath.Join(dir, "out")}
	if err := os.Mkdir(b.out, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{b.input, filepath.Join(dir, "canary")} {
		if err := os.WriteFile(name, []byte("weights"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b bench) profile(box schemas.Box) Profile {
	return Profile{Box: box, Dir: b.out, Mounts: []Mount{{Name: "input/model", Host: b.input}, {Name: "out", Host: b.out, Write: true}}}
}

func openBox(t *testing.T, p Profile) *Box {
	t.Helper()
	box, err := Open(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	})
	return box
}

// says runs a shell in the box and gives its output.
func says(t *testing.T, box *Box, script string) string {
	t.Helper()
	cmd, err := box.Command(t.Context(), "/bin/sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func needs(t *testing.T, m Method) {
	t.Helper()
	if err := BoxWorks(m); err != nil {
		shared.Missing(t, "%v", err)
	}
}

func TestBubblewrapRenamesWhatItHolds(t *testing.T) {
	needs(t, Bubblewrap)
	b := newBench(t)
	box := openBox(t, b.profile(schemas.Box{Method: "bubblewrap"}))
	if got := says(t, box, "cat /work/in/model/model.gguf; echo made > made; pwd; id -u"); got != "weights/work/out\n65534" {
		t.Errorf("got %q", got)
	}
	if body, err := os.ReadFile(filepath.Join(b.out, "made")); err != nil || string(body) != "made\n" {
		t.Errorf("got %q, %v", body, err)
	}
	if got := box.Inside(b.input); got != "/work/in/model/model.gguf" {
		t.Errorf("got %s", got)
	}
}

func TestWhatIsWrittenCannotBeRun(t *testing.T) {
	needs(t, Bubblewrap)
	p := newBench(t).profile(schemas.Box{Method: "bubblewrap"})
	const script = "cp /bin/true here; ./here && echo ran || echo refused"
	if got := says(t, openBox(t, p), script); !strings.HasSuffix(got, "Permission denied\nrefused") {
		t.Errorf("got %q", got)
	}
	p.RunsProducts = true
	if got := says(t, openBox(t, p), script); got != "ran" {
		t.Errorf("with RunsProducts: got %q", got)
	}
}

func TestALoaderGetsNothingThatIsWritten(t *testing.T) {
	needs(t, Bubblewrap)
	loaders, _ := filepath.Glob("/lib64/ld-linux-*.so.*")
	if len(loaders) == 0 {
		t.Skip("this system has no loader of glibc at /lib64")
	}
	box := openBox(t, newBench(t).profile(schemas.Box{Method: "bubblewrap"}))
	for _, dir := range []string{".", "/tmp", "/var/tmp", "/dev/shm", "/work/home"} {
		script := "cp /bin/true " + dir + "/t; " + loaders[0] + " /bin/true && echo works; " + loaders[0] + " " + dir + "/t || echo refused"
		if got := says(t, box, script); !strings.HasPrefix(got, "works") || !strings.Contains(got, "failed to map segment") || !strings.HasSuffix(got, "refused") {
			t.Errorf("%s: got %q", dir, got)
		}
	}
}

func TestLandlockLeavesTheOutsideClosed(t *testing.T) {
	needs(t, Landlock)
	b := newBench(t)
	box := openBox(t, b.profile(schemas.Box{Method: "landlock"}))
	t.Log(box.Record())
	if got := says(t, box, "cat "+b.input+"; echo made > made; pwd; cp /bin/true t; ./t || echo refused"); !strings.HasPrefix(got, "weights"+b.out) || !strings.HasSuffix(got, "refused") {
		t.Errorf("got %q", got)
	}
	if got := says(t, box, "cat "+b.dir+"/canary || echo closed"); !strings.HasSuffix(got, "Permission denied\nclosed") {
		t.Errorf("got %q", got)
	}
	if got := says(t, box, "id -u; touch $TMPDIR/x $HOME/y && echo own; echo x > "+b.input+" || echo closed; cat /proc/1/environ || echo closed"); !strings.Contains(got, "own") || strings.Count(got, "closed") != 2 {
		t.Errorf("got %q", got)
	}
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(filepath.Join(b.out, "made"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", st.Sys())
}
