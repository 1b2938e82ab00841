package checkpoints_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/checkpoints"
)

func sizes(t *testing.T, d *checkpoints.Dir) []int64 {
	t.Helper()
	var list []int64
	for size, err := range d.Sizes(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, size)
	}
	return list
}

// TestFolders keeps checkpoints across folders: in order, whatever the order
// they came in, and the newest is found past folders that are empty.
func TestFolders(t *testing.T) {
	d, err := checkpoints.Create(filepath.Join(t.TempDir(), "checkpoints"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Newest(t.Context()); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("newest of none: %v, want ErrNotFound", err)
	}
	want := []int64{0, 999, 1000, 1001, 999_999, 1_000_000, 42_042_123, math.MaxInt64}
	for _, i := range []int{3, 0, 7, 5, 1, 6, 2, 4} {
		if err := d.Put(t.Context(), want[i], fmt.Appendf(nil, "log\n%d\n", want[i])); err != nil {
			t.Fatal(err)
		}
	}
	if got := sizes(t, d); !slices.Equal(got, want) {
		t.Errorf("sizes %v, want %v", got, want)
	}
	for i := len(want) - 1; i >= 0; i-- {
		if newest, err := d.Newest(t.Context()); err != nil || newest != want[i] {
			t.Errorf("newest %d, %v; want %d", newest, err, want[i])
		}
		if msg, err := d.At(t.Context(), want[i]); err != nil || string(msg) != fmt.Sprintf("log\n%d\n", want[i]) {
			t.Errorf("at %d: %q, %v", want[i], msg, err)
		}
		if err := os.Remove(d.File(want[i])); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Newest(t.Context()); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("newest of empty folders: %v, want ErrNotFound", err)
	}
}

// TestStrangeNames puts what is no checkpoint among them.
func TestStrangeNames(t *testing.T) {
	for _, name := range []string{
		"0000000000000000007",                     // a checkpoint outside its folders
		"0000000000000/7",                         // a short folder
		"0000000000001/000/0000000000000000007",   // a checkpoint in the folder of others
		"0000000000000/000/0000000000000000007.x", // a name with an end
		"0000000000000/000/000000000000000000x",
		"0000000000000/000/latest",
		"9999999999999/999/9999999999999999999", // a size past 63 bits
	} {
		path := filepath.Join(t.TempDir(), "checkpoints")
		d, err := checkpoints.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(path, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		var last error
		for _, last = range d.Sizes(t.Context()) {
		}
		_, newest := d.Newest(t.Context())
		for _, err := range []error{last, newest} {
			if err == nil || !strings.Contains(err.Error(), filepath.Base(file)+" is not named like a checkpoint") {
				t.Errorf("%s: %v, want it named", name, err)
			}
		}
	}
}

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
	for _, dir := range []string{path, filepath.Dir(d.File(7))} {
		if err := os.WriteFile(filepath.Join(dir, ".unfinished-x"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := sizes(t, d); !slices.Equal(got, []int64{0, 3, 7}) {
		t.Errorf("sizes %v; want 0, 3, 7", got)
	}
	if newest, err := d.Newest(ctx); err != nil || newest != 7 {
		t.Errorf("newest %d, %v; want 7", newest, err)
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
