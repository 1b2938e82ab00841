package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFilesThatAreWrittenToAreNotAnswered: a change of a file, of a part of a split one and of a file in a folder is seen.
func TestFilesThatAreWrittenToAreNotAnswered(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "model")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	single, part, other := filepath.Join(dir, "m.gguf"), filepath.Join(dir, "s-00001-of-00002.gguf"), filepath.Join(dir, "s-00002-of-00002.gguf")
	config := filepath.Join(folder, "config.json")
	for _, name := range []string{single, part, other, config} {
		write(t, name, []byte("a"))
	}
	for name, c := range map[string]struct{ path, written string }{
		"a file": {single, single}, "a part beside it": {part, other}, "a file in a folder": {folder, config}, "a new file in a folder": {folder, filepath.Join(folder, "model.safetensors")},
	} {
		before, err := stamps(c.path)
		if err != nil {
			t.Fatal(err)
		}
		if err := before.check(c.path); err != nil {
			t.Errorf("%s: got %v before anything was written", name, err)
		}
		old, _ := os.ReadFile(c.written)
		write(t, c.written, append(old, 'b'))
		if err := before.check(c.path); err == nil || !strings.Contains(err.Error(), "while") {
			t.Errorf("%s: got %v, want the change seen", name, err)
		}
	}
}

// TestCompareOfAnUnreadableFolder ends with the exit code of what could not be checked.
func TestCompareOfAnUnreadableFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../fixtures/mlx/source")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "config.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "config.json"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"../../fixtures/mlx/source", dir}, {dir, "../../fixtures/mlx/source"}} {
		if code, said := runSelf(t, "compare", args[0], args[1]); code != 2 {
			t.Errorf("got exit code %d, %s, want 2: nothing could be checked", code, said)
		}
	}
}
