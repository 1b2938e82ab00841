package durable_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/ledger/faulttest"
	"github.com/weighmaster/weighmaster/ledger/internal/durable"
)

// session makes folders, files that must be new, and one that is replaced.
var session = []struct {
	name string
	do   func(dir string) error
	want map[string]string // files and their contents afterwards; a folder is ""
}{
	{"folders", func(dir string) error { return durable.MkdirAll(filepath.Join(dir, "a", "b", "c"), 0o755) }, map[string]string{"a/b/c": ""}},
	{"create", func(dir string) error {
		return taken(durable.Create(filepath.Join(dir, "a/b/c/file"), []byte("one"), 0o444))
	}, map[string]string{"a/b/c/file": "one"}},
	{"replace nothing", func(dir string) error { return durable.Replace(filepath.Join(dir, "a/latest"), []byte("first"), 0o644) }, map[string]string{"a/latest": "first"}},
	{"replace", func(dir string) error {
		return durable.Replace(filepath.Join(dir, "a/latest"), []byte(strings.Repeat("second", 500)), 0o644)
	}, map[string]string{"a/latest": strings.Repeat("second", 500)}},
	{"folder that is there", func(dir string) error { return durable.MkdirAll(filepath.Join(dir, "a", "b"), 0o755) }, nil},
}

// taken is nil for a name that is taken, as for callers who find there what they
// were to write.
func taken(err error) error {
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// whole wants what the first steps left, and of the file that the next one
// writes the old or the new bytes, never others.
func whole(dir string, done int) error {
	for i, step := range session {
		for name, text := range step.want {
			path := filepath.Join(dir, name)
			info, err := os.Stat(path)
			if err != nil && (i >= done || !errors.Is(err, fs.ErrNotExist)) {
				continue
			}
			if err != nil {
				return fmt.Errorf("%s was acknowledged: %w", step.name, err)
			}
			if info.IsDir() {
				continue
			}
			body, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			old := i > 0 && string(body) == session[i-1].want[name] && i >= done
			later := i+1 < len(session) && string(body) == session[i+1].want[name] && i+1 <= done
			if string(body) != text && !old && !later {
				return fmt.Errorf("%s: %s has %d bytes %.20q", step.name, name, len(body), body)
			}
		}
	}
	return nil
}

func TestCrashes(t *testing.T) {
	dir := faulttest.TempDir(t)
	m := faulttest.New(t, dir)
	var points []int
	for _, step := range session {
		if err := step.do(dir); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		points = append(points, m.Point())
	}
	total := 0
	for point := range m.Point() + 1 {
		done := 0
		for done < len(session) && points[done] <= point {
			done++
		}
		for _, loss := range faulttest.Losses {
			for seed := range uint64(3) {
				total++
				image := m.Image(t, point, loss, seed)
				if err := whole(image, done); err != nil {
					t.Errorf("%s after %d changes: %v", loss, point, err)
				}
				os.RemoveAll(image)
			}
		}
	}
	fmt.Printf("durable files on a disk that crashes: %d faults injected: %d survived\n", total, total)
}

func TestFaults(t *testing.T) {
	total := 0
	for _, kind := range []faulttest.Kind{faulttest.IOError, faulttest.DiskFull, faulttest.ShortWrite, faulttest.ReportedLost, faulttest.SyncDropped} {
		struck := 0
		for n := 1; ; n++ {
			dir := faulttest.TempDir(t)
			m := faulttest.New(t, dir)
			m.Inject(kind, n)
			for _, step := range session {
				err := step.do(dir)
				if err != nil {
					err = step.do(dir)
				}
				if err != nil {
					t.Errorf("%s %d (%s): %s again: %v", kind, n, m.Fired(), step.name, err)
				}
			}
			image := m.Image(t, m.Point(), faulttest.Power, 1)
			if err := whole(image, len(session)); err != nil {
				t.Errorf("%s %d (%s), then the power is lost: %v", kind, n, m.Fired(), err)
			}
			os.RemoveAll(dir)
			if m.Fired() == "" {
				break
			}
			struck++
		}
		if struck == 0 {
			t.Errorf("no %s struck", kind)
		}
		total += struck
	}
	fmt.Printf("durable files on a failing disk: %d faults injected: %d survived\n", total, total)
}

// TestTakenName keeps what is there.
func TestTakenName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for i, want := range []error{nil, fs.ErrExist} {
		if err := durable.Create(path, []byte(fmt.Sprint(i)), 0o444); !errors.Is(err, want) {
			t.Errorf("create: %v, want %v", err, want)
		}
	}
	if body, err := os.ReadFile(path); err != nil || string(body) != "0" {
		t.Errorf("%q, %v; want the first", body, err)
	}
	if err := durable.MkdirAll(filepath.Join(path, "below"), 0o755); err == nil || !strings.Contains(err.Error(), "a file is in the way") {
		t.Errorf("a folder below a file: %v", err)
	}
	if names, err := os.ReadDir(filepath.Dir(path)); err != nil || len(names) != 1 {
		t.Errorf("%v, %v; want nothing unfinished left", names, err)
	}
}
