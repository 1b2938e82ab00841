package tiles_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/faulttest"
	"github.com/weighmaster/weighmaster/ledger/memory"
	"github.com/weighmaster/weighmaster/ledger/tiles"
)

// growing makes a log and a folder that has its export from before it grew,
// which the tests copy.
func growing(t *testing.T) (*ledger.Log, note.Verifier, fs.FS) {
	t.Helper()
	log, verifier := newLog(t, memory.NewStore(), 1)
	grow(t, log, "", 0, 250)
	folder := filepath.Join(faulttest.TempDir(t), "tiles")
	if _, err := tiles.Export(t.Context(), log, folder); err != nil {
		t.Fatal(err)
	}
	grow(t, log, "", 250, 260) // a full tile, one above, and partial ones
	return log, verifier, os.DirFS(folder)
}

// holds says that a folder is a whole export, of one size or the other, and that
// exporting once more mends what was interrupted.
func holds(t *testing.T, log *ledger.Log, verifier note.Verifier, folder, what string) {
	t.Helper()
	if size := sizeOf(t, verifier, folder, what); size != 250 && size != 260 {
		t.Fatalf("%s: %d entries", what, size)
	}
	if _, err := tiles.Export(t.Context(), log, folder); err != nil {
		t.Fatalf("%s: the next export: %v", what, err)
	}
	if size := sizeOf(t, verifier, folder, what); size != 260 {
		t.Fatalf("%s: %d entries after the next export", what, size)
	}
}

// sizeOf checks the signature and the tree of a folder; that its entries are
// leaves is their hashes' business.
func sizeOf(t *testing.T, verifier note.Verifier, folder, what string) int64 {
	t.Helper()
	msg, err := os.ReadFile(filepath.Join(folder, "checkpoint"))
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	c, err := ledger.ParseCheckpoint(msg, verifier)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	v, err := tiles.VerifyTree(t.Context(), os.DirFS(folder), tlog.Tree{N: c.Size, Hash: c.Root})
	if err != nil || !v.OK() {
		t.Fatalf("%s: %v, %v", what, v.Findings, err)
	}
	return c.Size
}

// TestExportFaults strikes every call of an export with every kind of fault. A
// failed export leaves the one before; one that succeeds is whole, unless the
// disk lied, and then verification says so.
func TestExportFaults(t *testing.T) {
	log, verifier, before := growing(t)
	injected, lies := 0, 0
	for _, kind := range faulttest.Kinds {
		for n := 1; ; n++ {
			root := faulttest.TempDir(t)
			folder := filepath.Join(root, "tiles")
			if err := os.CopyFS(folder, before); err != nil {
				t.Fatal(err)
			}
			m := faulttest.New(t, root)
			m.Inject(kind, n)
			_, err := tiles.Export(t.Context(), log, folder)
			if m.Fired() == "" {
				if err != nil {
					t.Fatalf("%s, call %d: %v without a fault", kind, n, err)
				}
				break
			}
			injected++
			what := string(kind) + ", " + m.Fired()
			m.Inject(kind, 1<<30) // no more of them
			if kind != faulttest.SilentLoss {
				holds(t, log, verifier, folder, what)
				continue
			}
			v, verifyErr := tiles.Verify(t.Context(), os.DirFS(folder), verifier)
			if verifyErr == nil && v.OK() {
				continue // a folder's sync, or a change of mode
			}
			lies++
		}
	}
	t.Logf("%d faults injected into exports, %d of them lies of the disk that verification found", injected, lies)
	if injected < 100 || lies == 0 {
		t.Errorf("%d faults, %d lies: the test strikes nothing", injected, lies)
	}
}

// TestExportCrashes lays out the disk as a crash at every change of an export
// leaves it.
func TestExportCrashes(t *testing.T) {
	root := faulttest.TempDir(t)
	log, verifier, before := growing(t)
	folder := filepath.Join(root, "tiles")
	if err := os.CopyFS(folder, before); err != nil {
		t.Fatal(err)
	}
	m := faulttest.New(t, root)
	start := m.Point()
	if _, err := tiles.Export(t.Context(), log, folder); err != nil {
		t.Fatal(err)
	}
	points := m.Point()
	crashes := 0
	for point := start; point <= points; point++ {
		for _, loss := range faulttest.Losses {
			image := m.Image(t, point, loss, uint64(point))
			holds(t, log, verifier, filepath.Join(image, "tiles"), string(loss))
			crashes++
		}
	}
	last, err := os.ReadFile(filepath.Join(folder, "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(filepath.Join(m.Image(t, points, faulttest.Power, 1), "tiles", "checkpoint"))
	if err != nil || !bytes.Equal(last, after) {
		t.Errorf("the export that returned did not survive a loss of power: %v", err)
	}
	t.Logf("%d crashes of exports", crashes)
	if crashes < 100 {
		t.Errorf("%d crashes: the test strikes nothing", crashes)
	}
}

// TestFirstExportCrashes: before the first checkpoint there is no log.
func TestFirstExportCrashes(t *testing.T) {
	root := faulttest.TempDir(t)
	log, verifier := newLog(t, memory.NewStore(), 1)
	grow(t, log, "", 0, 260)
	m := faulttest.New(t, root)
	folder := filepath.Join(root, "tiles")
	if _, err := tiles.Export(t.Context(), log, folder); err != nil {
		t.Fatal(err)
	}
	for point := 0; point < m.Point(); point += 5 { // the rest is TestExportCrashes
		for _, loss := range faulttest.Losses {
			image := filepath.Join(m.Image(t, point, loss, 1), "tiles")
			_, err := os.Stat(filepath.Join(image, "checkpoint"))
			if err == nil {
				holds(t, log, verifier, image, string(loss))
				continue
			}
			if !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if _, err := tiles.Export(t.Context(), log, image); err != nil {
				t.Fatalf("%s at %d: %v", loss, point, err)
			}
			holds(t, log, verifier, image, string(loss))
		}
	}
}
