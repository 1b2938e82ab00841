package stages

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weighmaster/weighmaster/schemas"
)

// TestAToolOnAFullDiskFailsCleanly gives the stage a file system that its output does not fit on.
func TestAToolOnAFullDiskFailsCleanly(t *testing.T) {
	run := exampleProducts(t).run(t, "cp $good $2", nil)
	if err := syscall.Mount("tmpfs", run.Dir, "tmpfs", 0, "size=512k"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("a small file system cannot be mounted: %v; run as root", err)
		}
		t.Skipf("mounting a small file system needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(run.Dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	out, err := Quantize{}.Run(t.Context(), run)
	if err != nil || out.Verdict != schemas.Failed || !strings.Contains(out.Failure, "No space left on device") || out.Output != nil {
		t.Fatalf("%v %+v", err, out)
	}
	if onDisk(run.Dir, "q.gguf") || !onDisk(run.Dir, "q.gguf.partial") {
		t.Error("want the partial file alone")
	}
	if err := syscall.Mount("tmpfs", run.Dir, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%dk", 8<<10)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(run.Dir, "q.gguf.partial")); err != nil {
		t.Fatal(err)
	}
	if out, err = (Quantize{}).Run(t.Context(), run); err != nil || out.Verdict != schemas.Passed {
		t.Errorf("with room again: %v %+v", err, out)
	}
}
