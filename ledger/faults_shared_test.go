package ledger_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/faulttest"
)

// TestDiskFaultsWhileOthersAppend lets two writers with connections of their
// own append the same and other bundles while one call of either fails. Each
// appends again what failed. All of it must be there, once.
func TestDiskFaultsWhileOthersAppend(t *testing.T) {
	const each = 6 // of which the first half is the same for both
	total := 0
	for _, kind := range []faulttest.Kind{faulttest.IOError, faulttest.DiskFull, faulttest.ShortWrite, faulttest.ReportedLost} {
		for n := 1; ; n += 7 * stride {
			dir := faulttest.TempDir(t)
			w, err := create(t, dir)
			if err != nil {
				t.Fatal(err)
			}
			w.store.Close()
			m := faulttest.New(t, dir)
			var writers [2]*world
			for i := range writers {
				if writers[i], err = open(t, dir); err != nil {
					t.Fatal(err)
				}
			}
			m.Inject(kind, n)
			var wg sync.WaitGroup
			for i, w := range writers {
				wg.Go(func() {
					for k := range each {
						if k >= each/2 {
							k += i * each
						}
						_, err := w.log.Append(t.Context(), step(k))
						if err != nil {
							_, err = w.log.Append(t.Context(), step(k))
						}
						if err != nil {
							t.Errorf("%s %d (%s), writer %d, append %d again: %v", kind, n, m.Fired(), i, k, err)
						}
					}
				})
			}
			wg.Wait()
			fired := m.Fired()
			m.Inject("", 0)
			for _, w := range writers {
				w.store.Close()
			}
			image := m.Image(t, m.Point(), faulttest.Power, 1)
			s := reopen(t, image)
			log, err := ledger.Open(t.Context(), s.store, s.options(t))
			if err != nil {
				t.Fatalf("%s %d (%s), then the power is lost: %v", kind, n, fired, err)
			}
			if v := mustVerify(t, log); v.Size != each+each/2 {
				t.Errorf("%s %d (%s): %d entries, want %d", kind, n, fired, v.Size, each+each/2)
			}
			s.store.Close()
			for _, d := range []string{image, dir} {
				if err := os.RemoveAll(filepath.Clean(d)); err != nil {
					t.Fatal(err)
				}
			}
			if fired == "" {
				break
			}
			total++
		}
	}
	if total < 80/stride {
		t.Errorf("%d faults, want at least %d", total, 80/stride)
	}
	fmt.Printf("ledger with two writers on a failing disk: %d faults injected: %d survived\n", total, total)
}
