package ledger_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weighmaster/weighmaster/ledger/storetest"
)

// TestRealFullDisk fills a file system of 600 KiB again and again, a little
// larger each time. What was acknowledged before the disk was full must be
// there, also while it is full, and the append that failed must succeed when
// there is room.
func TestRealFullDisk(t *testing.T) {
	dir := t.TempDir()
	size := 600
	mount := func(flags uintptr) error {
		return syscall.Mount("tmpfs", dir, "tmpfs", flags, fmt.Sprintf("size=%dk", size))
	}
	if err := mount(0); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("a small file system cannot be mounted: %v; run as root", err)
		}
		t.Skipf("mounting a small file system needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	w, err := create(t, filepath.Join(dir, "p"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.store.Close()
	full := 0
	text := strings.Repeat("filling ", 3000)
	for i := 0; full < 6; i++ {
		payload := fmt.Sprintf("%d %s", i, text)
		bundle := storetest.Bundle(payload, []string{fmt.Sprint("made ", i)}, nil)
		if _, err := w.log.Append(t.Context(), bundle); err != nil {
			full++
			if !strings.Contains(err.Error(), "full") && !strings.Contains(err.Error(), "no space left") {
				t.Fatalf("append %d: %v, want the disk full", i, err)
			}
			if v := mustVerify(t, w.log); v.Size != int64(i) && v.Size != int64(i+1) {
				t.Fatalf("%d entries on the full disk, want %d, or %d that is not yet covered", v.Size, i, i+1)
			}
			size += 200
			if err := mount(syscall.MS_REMOUNT); err != nil {
				t.Fatal(err)
			}
			if _, err := w.log.Append(t.Context(), bundle); err != nil {
				t.Fatalf("append %d when there is room again: %v", i, err)
			}
		}
		if v := mustVerify(t, w.log); v.Size != int64(i+1) {
			t.Fatalf("%d entries, want %d", v.Size, i+1)
		}
	}
	fmt.Printf("ledger on a file system that is full: %d faults injected: %d survived\n", full, full)
}
