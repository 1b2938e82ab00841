package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
)

// TestSparseFilesAreComparedInLittleMemory compares two files of 1.9 GB, whose data is a hole.
func TestSparseFilesAreComparedInLittleMemory(t *testing.T) {
	dir := t.TempDir()
	binaryPath := filepath.Join(dir, "weighmaster") // without the race detector, whose memory is not ours
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binaryPath, ".").CombinedOutput(); err != nil {
		shared.Missing(t, "go build: %v: %s", err, out)
	}
	one, other := filepath.Join(dir, "one.gguf"), filepath.Join(dir, "other.gguf")
	sparseGGUF(t, one, 7)
	sparseGGUF(t, other, 7)
	if info, err := os.Stat(one); err != nil || info.Size() < 18e8 {
		t.Fatalf("got %v, %v, want a file of 1.8 GB and more", info, err)
	}
	peak := peakMemory(t, exec.CommandContext(t.Context(), binaryPath, "compare", one, other, "--json"))
	t.Logf("%d MiB", peak/mebibyte)
	if peak > 256*mebibyte {
		t.Errorf("got %d MiB, want at most 256", peak/mebibyte)
	}
}
