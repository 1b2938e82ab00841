package checkpoints_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/checkpoints"
	"github.com/weighmaster/weighmaster/ledger/faulttest"
)

// act is one write of the session below.
type act struct {
	size     int64
	old, msg string // old is empty for Put
}

// acts cross a folder's border and cosign a checkpoint twice.
var acts = []act{
	{0, "", "log\n0\nroot\n"}, {5, "", "log\n5\nroot\n"}, {5, "log\n5\nroot\n", "log\n5\nroot\ncosigned\n"},
	{1000, "", "log\n1000\nroot\n"}, {1000, "log\n1000\nroot\n", "log\n1000\nroot\ncosigned\n"},
	{5, "log\n5\nroot\ncosigned\n", "log\n5\nroot\ncosigned twice\n"}, {1000, "", "log\n1000\nroot\ncosigned\n"}, {2_000_000, "", "log\n2000000\nroot\n"},
}

func (a act) do(t *testing.T, d *checkpoints.Dir) error {
	if a.old == "" {
		return d.Put(t.Context(), a.size, []byte(a.msg))
	}
	// As the log does: it reads what is kept, which may be what was to be
	// written and is not yet durable, and replaces it.
	kept, err := d.At(t.Context(), a.size)
	if err != nil {
		return err
	}
	if string(kept) != a.old && string(kept) != a.msg {
		return fmt.Errorf("kept is %q, want %q", kept, a.old)
	}
	return d.Replace(t.Context(), a.size, kept, []byte(a.msg))
}

// found wants every checkpoint in the state of the last acknowledged act or of
// the one after it, and nothing that was never written.
func found(t *testing.T, dir string, done int) error {
	d, err := checkpoints.Open(dir)
	if err != nil {
		return err
	}
	newest := int64(-1)
	for size, err := range d.Sizes(t.Context()) {
		if err != nil {
			return err
		}
		newest = size
		msg, err := d.At(t.Context(), size)
		if err != nil {
			return err
		}
		var allowed []string
		for i, a := range acts {
			if a.size == size && i < done {
				allowed = []string{a.msg}
			} else if a.size == size && i <= done {
				allowed = append(allowed, a.msg)
			}
		}
		if !slices.Contains(allowed, string(msg)) {
			return fmt.Errorf("size %d is %q, want one of %q", size, msg, allowed)
		}
	}
	for i, a := range acts[:done] {
		if _, err := d.At(t.Context(), a.size); err != nil {
			return fmt.Errorf("act %d was acknowledged: %w", i, err)
		}
	}
	latest, err := d.Latest(t.Context())
	if done == 0 && errors.Is(err, ledger.ErrNotFound) {
		return nil
	}
	if err != nil || !slices.ContainsFunc(acts, func(a act) bool { return a.msg == string(latest) && a.size <= newest }) {
		return fmt.Errorf("latest is %q, %w; want a checkpoint that is kept", latest, err)
	}
	return nil
}

func TestCrashes(t *testing.T) {
	dir := faulttest.TempDir(t)
	path := filepath.Join(dir, "checkpoints")
	d, err := checkpoints.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	m := faulttest.New(t, dir)
	start, points := m.Point(), []int{}
	for i, a := range acts {
		if err := a.do(t, d); err != nil {
			t.Fatalf("act %d: %v", i, err)
		}
		points = append(points, m.Point())
	}
	total := 0
	for point := start; point <= m.Point(); point++ {
		done := 0
		for done < len(acts) && points[done] <= point {
			done++
		}
		for _, loss := range faulttest.Losses {
			total++
			image := m.Image(t, point, loss, uint64(point))
			if err := found(t, filepath.Join(image, "checkpoints"), done); err != nil {
				t.Errorf("%s after %d changes: %v", loss, point, err)
			}
			os.RemoveAll(image)
		}
	}
	if total < 200 {
		t.Errorf("%d crashes, want at least 200", total)
	}
	fmt.Printf("checkpoints on a disk that crashes: %d faults injected: %d survived\n", total, total)
}

func TestFaults(t *testing.T) {
	total := 0
	for _, kind := range faulttest.Kinds {
		if kind == faulttest.SilentLoss {
			continue // shows in the log's signatures
		}
		for n := 1; ; n++ {
			dir := faulttest.TempDir(t)
			d, err := checkpoints.Create(filepath.Join(dir, "checkpoints"))
			if err != nil {
				t.Fatal(err)
			}
			m := faulttest.New(t, dir)
			m.Inject(kind, n)
			for i, a := range acts {
				err := a.do(t, d)
				if err != nil {
					err = a.do(t, d)
				}
				if err != nil {
					t.Errorf("%s %d (%s), act %d again: %v", kind, n, m.Fired(), i, err)
				}
			}
			fired := m.Fired()
			m.Inject("", 0)
			image := m.Image(t, m.Point(), faulttest.Power, 1)
			if err := found(t, filepath.Join(image, "checkpoints"), len(acts)); err != nil {
				t.Errorf("%s %d (%s), then the power is lost: %v", kind, n, fired, err)
			}
			os.RemoveAll(image)
			os.RemoveAll(dir)
			if fired == "" {
				break
			}
			total++
		}
	}
	if total < 150 {
		t.Errorf("%d faults, want at least 150", total)
	}
	fmt.Printf("checkpoints on a failing disk: %d faults injected: %d survived\n", total, total)
}
