package imported_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/faulttest"
	"github.com/weighmaster/weighmaster/ledger/imported"
	"github.com/weighmaster/weighmaster/ledger/storetest"
)

// kept wants each entry to be there as it was given or, unless it was
// acknowledged, not at all; and that the same can be kept again.
func kept(t *testing.T, dir string, msg []byte, entries []imported.Entry, acknowledged bool) error {
	s := imported.Open(filepath.Join(dir, "imported"))
	logs, err := s.Logs()
	if err != nil {
		return err
	}
	if len(logs) > 1 || acknowledged && len(logs) != 1 {
		return fmt.Errorf("%d logs", len(logs))
	}
	l := s.Log(storetest.Origin)
	for pass := range 2 {
		for _, want := range entries {
			got, err := l.Entry(want.Leaf.Bundle)
			if errors.Is(err, ledger.ErrNotFound) && pass == 0 && !acknowledged {
				continue
			}
			if err != nil || got.Leaf != want.Leaf || !bytes.Equal(got.Proof, want.Proof) {
				return fmt.Errorf("pass %d: %+v, %w", pass, got, err)
			}
		}
		if err := l.Keep(t.Context(), int64(len(entries)), msg, entries); err != nil {
			return fmt.Errorf("keep again: %w", err)
		}
	}
	c, err := l.Checkpoints()
	if err != nil {
		return err
	}
	if got, err := c.At(t.Context(), int64(len(entries))); err != nil || !bytes.Equal(got, msg) {
		return fmt.Errorf("checkpoint %q, %w", got, err)
	}
	return nil
}

func TestCrashesAndFaults(t *testing.T) {
	msg, entries := other(t, 4)
	dir := faulttest.TempDir(t)
	m := faulttest.New(t, dir)
	if err := imported.Open(filepath.Join(dir, "imported")).Log(storetest.Origin).Keep(t.Context(), 4, msg, entries); err != nil {
		t.Fatal(err)
	}
	crashes, faults := 0, 0
	for point := range m.Point() + 1 {
		for _, loss := range faulttest.Losses {
			crashes++
			image := m.Image(t, point, loss, uint64(point))
			if err := kept(t, image, msg, entries, point == m.Point()); err != nil {
				t.Errorf("%s after %d changes: %v", loss, point, err)
			}
			os.RemoveAll(image)
		}
	}
	for _, kind := range []faulttest.Kind{faulttest.IOError, faulttest.DiskFull, faulttest.ShortWrite, faulttest.ReportedLost, faulttest.SyncDropped} {
		for n := 1; ; n++ {
			dir := faulttest.TempDir(t)
			m := faulttest.New(t, dir)
			m.Inject(kind, n)
			l := imported.Open(filepath.Join(dir, "imported")).Log(storetest.Origin)
			err := l.Keep(t.Context(), 4, msg, entries)
			if err != nil {
				err = l.Keep(t.Context(), 4, msg, entries)
			}
			if err != nil {
				t.Errorf("%s %d (%s): keep again: %v", kind, n, m.Fired(), err)
			}
			fired := m.Fired()
			m.Inject("", 0)
			image := m.Image(t, m.Point(), faulttest.Power, 1)
			if err := kept(t, image, msg, entries, true); err != nil {
				t.Errorf("%s %d (%s), then the power is lost: %v", kind, n, fired, err)
			}
			os.RemoveAll(image)
			os.RemoveAll(dir)
			if fired == "" {
				break
			}
			faults++
		}
	}
	fmt.Printf("imported logs on a disk that crashes and fails: %d faults injected: %d survived\n", crashes+faults, crashes+faults)
}
