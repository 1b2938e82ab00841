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
