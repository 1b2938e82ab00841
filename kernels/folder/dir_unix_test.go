//go:build unix

package folder

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestAPipeIsRefused instead of waited for; files behind links are read.
func TestAPipeIsRefused(t *testing.T) {
	path := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(path, "config.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, "blob"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("blob", filepath.Join(path, "linked.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := Dir(path).Open("config.json"); err == nil || !strings.Contains(err.Error(), "want a regular file") {
		t.Errorf("got %v, want the pipe refused", err)
	}
	if body, err := fs.ReadFile(Dir(path), "linked.json"); err != nil || string(body) != "{}" {
		t.Errorf("got %q, %v, want the linked file", body, err)
	}
	if list, err := fs.ReadDir(Dir(path), "."); err != nil || len(list) != 3 {
		t.Errorf("got %v, %v, want three entries", list, err)
	}
}
