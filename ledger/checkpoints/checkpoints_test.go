package checkpoints_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/checkpoints"
)

func TestDir(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoints")
	if _, err := checkpoints.Open(path); err == nil {
		t.Error("opened a folder that is not there")
	}
	d, err := checkpoints.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if _, err := d.Latest(ctx); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("latest of none: %v, want ErrNotFound", err)
	}
	for _, c := range []struct {
		size int64
		text string
		want error
	}{
		{0, "log\n0\n", nil}, {7, "log\n7\n", nil}, {7, "log\n7\n", nil}, {7, "log\n7\nother\n", ledger.ErrConflict}, {3, "log\n3\n", nil},
	} {
		if err := d.Put(ctx, c.size, []byte(c.text)); !errors.Is(err, c.want) {
			t.Errorf("put %q: %v, want %v", c.text, err, c.want)
		}
	}
	// An unfinished write of a process that died is skipped.
	if err := os.WriteFile(filepath.Join(path, ".unfinished-x"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if sizes, err := d.Sizes(ctx); err != nil || len(sizes) != 3 || sizes[0] != 0 || sizes[2] != 7 {
		t.Errorf("sizes %v, %v; want 0, 3, 7", sizes, err)
	}
	if msg, err := d.At(ctx, 7); err != nil || string(msg) != "log\n7\n" {
		t.Errorf("at 7: %q, %v; want the first one", msg, err)
	}
	if msg, err := d.Latest(ctx); err != nil || string(msg) != "log\n7\n" {
		t.Errorf("latest: %q, %v; want that of 7", msg, err)
	}
	if _, err := checkpoints.Create(path); err == nil {
		t.Error("created a log's folder over another's")
	}
}
