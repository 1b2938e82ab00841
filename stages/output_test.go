package stages

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/digest"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

func TestOutputIsWholeReadOnlyAndHashed(t *testing.T) {
	run := &Run{Dir: t.TempDir()}
	f, err := run.Output("sub/model.gguf", text("weights"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := digest.File(t.Context(), filepath.Join(run.Dir, "sub", "model.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	if f.Name != "sub/model.gguf" || f.Path != filepath.Join(run.Dir, "sub", "model.gguf") || f.Sums.SHA256 != want.SHA256 || f.Sums.Size != want.Size {
		t.Errorf("got %+v, want the sums %+v", f, want)
	}
	info, err := os.Stat(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o444 {
		t.Errorf("got mode %v, want 0444", info.Mode())
	}
	if _, err := os.Stat(f.Path + ".partial"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the partial file is still there: %v", err)
	}
}

func TestOutputIsNeverWrittenOver(t *testing.T) {
	run := &Run{Dir: t.TempDir()}
	if _, err := run.Output("a", text("first")); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Output("a", text("second")); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "never written over") {
		t.Errorf("got %v, want fs.ErrExist with what to do", err)
	}
	// A file that appears while the output is written is kept as well.
	_, err := run.Output("b", func(w io.Writer) error {
		return os.WriteFile(filepath.Join(run.Dir, "b"), []byte("another's"), 0o644)
	})
	if !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want fs.ErrExist", err)
	}
	if body, err := os.ReadFile(filepath.Join(run.Dir, "b")); err != nil || string(body) != "another's" {
		t.Errorf("got %q, %v; want the other's file untouched", body, err)
	}
}

func TestFailedOutputHasNoName(t *testing.T) {
	run := &Run{Dir: t.TempDir()}
	stop := errors.New("the source ended")
	_, err := run.Output("a", func(w io.Writer) error {
		if err := text("half")(w); err != nil {
			return err
		}
		return stop
	})
	if !errors.Is(err, stop) {
		t.Errorf("got %v, want %v", err, stop)
	}
	if _, err := os.Stat(filepath.Join(run.Dir, "a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the unfinished file has the name of a finished one: %v", err)
	}
}

func TestOutputNamesStayBelowTheFolder(t *testing.T) {
	run := &Run{Dir: t.TempDir()}
	for _, name := range []string{"", ".", "../a", "/a", "a/../../b", "a//b"} {
		if _, err := run.Output(name, text("x")); err == nil || !strings.Contains(err.Error(), "not relative and clean") {
			t.Errorf("%q: got %v, want a refusal of the name", name, err)
		}
	}
}
