package stages

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestWatchedFilesShowEveryChange, also one of the same size right after the look.
func TestWatchedFilesShowEveryChange(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes and times of change are those of Unix")
	}
	for name, change := range map[string]func(dir string) error{
		"another content of the same size": func(dir string) error { return os.WriteFile(filepath.Join(dir, "a"), []byte("two"), 0o644) },
		"another mode":                     func(dir string) error { return os.Chmod(filepath.Join(dir, "a"), 0o600) },
		"a new file":                       func(dir string) error { return os.WriteFile(filepath.Join(dir, "b"), nil, 0o644) },
		"a file that is gone":              func(dir string) error { return os.Remove(filepath.Join(dir, "a")) },
		"a swap and back": func(dir string) error {
			if err := os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "c")); err != nil {
				return err
			}
			return os.Rename(filepath.Join(dir, "c"), filepath.Join(dir, "a"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeTree(t, dir, map[string]string{"a": "one"})
			w := watched{}
			if err := w.add(dir); err != nil {
				t.Fatal(err)
			}
			if err := w.changed(); err != nil {
				t.Fatalf("before any change: %v", err)
			}
			if err := change(dir); err != nil {
				t.Fatal(err)
			}
			if err := w.changed(); err == nil || (!strings.Contains(err.Error(), "was touched") && !strings.Contains(err.Error(), "was there before")) {
				t.Errorf("got %v", err)
			}
		})
	}
}
