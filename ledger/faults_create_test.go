package ledger_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/ledger/faulttest"
)

// TestDiskCrashesWhileCreating stops the disk after every change that makes a
// new ledger. What is found must be an empty ledger that works, or be refused
// with a word for it; once creation returned it must be a ledger.
func TestDiskCrashesWhileCreating(t *testing.T) {
	dir := faulttest.TempDir(t)
	if err := os.Mkdir(dir+"/evidence", 0o755); err != nil {
		t.Fatal(err)
	}
	m := faulttest.New(t, dir)
	start := m.Point()
	w, err := create(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	created := m.Point()
	w.store.Close()
	total, refused := 0, 0
	for point := start; point <= m.Point(); point += 1 + stride/8 {
		for _, loss := range faulttest.Losses {
			total++
			image := m.Image(t, point, loss, uint64(point))
			err := inspect(t, image, promised{})
			os.RemoveAll(image)
			if err == nil {
				continue
			}
			refused++
			if point >= created {
				t.Errorf("%s after creation (change %d of %d): %v", loss, point, m.Point(), err)
			}
			told := false
			for _, word := range []string{"no such file", "is not a ledger, or its creation was interrupted", "no checkpoint is kept outside", "restore the folder"} {
				told = told || strings.Contains(err.Error(), word)
			}
			if !told {
				t.Errorf("%s after change %d: %v, want a word about what is missing", loss, point, err)
			}
		}
	}
	if refused == 0 {
		t.Error("no crash left a half-made ledger: the crashes came too late")
	}
	fmt.Printf("ledger whose creation crashes: %d faults injected: %d survived (whole %d, refused by name %d)\n", total, total, total-refused, refused)
}

// TestDiskFaultsWhileCreating lets every call of a creation fail once. It must
// say so; what it leaves must not open as a ledger that it is not.
func TestDiskFaultsWhileCreating(t *testing.T) {
	total := 0
	for _, kind := range []faulttest.Kind{faulttest.IOError, faulttest.DiskFull, faulttest.ShortWrite, faulttest.ReportedLost} {
		for n := 1; ; n += stride {
			dir := faulttest.TempDir(t)
			if err := os.Mkdir(dir+"/evidence", 0o755); err != nil {
				t.Fatal(err)
			}
			m := faulttest.New(t, dir)
			m.Inject(kind, n)
			w, err := create(t, dir)
			fired := m.Fired()
			m.Inject("", 0)
			if fired == "" {
				if err != nil {
					t.Fatalf("without a fault: %v", err)
				}
				w.store.Close()
				os.RemoveAll(dir)
				break
			}
			total++
			if err == nil {
				w.store.Close()
				// It was mended or struck something that only helps.
				if err := inspect(t, m.Image(t, m.Point(), faulttest.Power, 1), promised{}); err != nil {
					t.Errorf("%s %d (%s): created, and then: %v", kind, n, fired, err)
				}
			}
			os.RemoveAll(dir)
		}
	}
	if total < 100/stride {
		t.Errorf("%d faults, want at least %d", total, 100/stride)
	}
	fmt.Printf("ledger whose creation fails: %d faults injected: %d survived\n", total, total)
}

// TestDiskThatIgnoresSyncs is the control of the tests above: with a disk that
// keeps nothing they must notice the loss.
func TestDiskThatIgnoresSyncs(t *testing.T) {
	dir := faulttest.TempDir(t)
	w, err := create(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	w.store.Close()
	m := faulttest.New(t, dir)
	m.IgnoreSyncs()
	if w, err = open(t, dir); err != nil {
		t.Fatal(err)
	}
	var p promised
	for i, d := range deeds() {
		if err := w.do(d); err != nil {
			t.Fatalf("deed %d: %v", i, err)
		}
		p.add(d)
	}
	w.store.Close()
	if err := inspect(t, m.Image(t, m.Point(), faulttest.Kill, 1), p); err != nil {
		t.Errorf("killed: %v, want nothing lost", err)
	}
	if err := inspect(t, m.Image(t, m.Point(), faulttest.Power, 1), p); err == nil {
		t.Error("power lost on a disk that ignores syncs: nothing missing was noticed")
	}
}
