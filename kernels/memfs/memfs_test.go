package memfs

import (
	"errors"
	"io"
	"io/fs"
	"testing"
)

func TestFiles(t *testing.T) {
	fsys := FS{"b": []byte("two"), "a": []byte("one")}
	if body, err := fs.ReadFile(fsys, "b"); err != nil || string(body) != "two" {
		t.Errorf("got %q, %v, want two", body, err)
	}
	list, err := fs.ReadDir(fsys, ".")
	if err != nil || len(list) != 2 || list[0].Name() != "a" || list[0].IsDir() {
		t.Errorf("got %v, %v, want a and b", list, err)
	}
	info, err := fs.Stat(fsys, "a")
	if err != nil || info.Size() != 3 || !info.Mode().IsRegular() {
		t.Errorf("got %v, %v, want a regular file of 3 bytes", info, err)
	}
	f, err := fsys.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := f.(io.ReaderAt); !ok {
		t.Errorf("got %T, want it read at any offset", f)
	}
}

func TestWhatIsNotThere(t *testing.T) {
	for _, name := range []string{"c", ".", "../a"} {
		if _, err := (FS{}).Open(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open %s: got %v, want no such file", name, err)
		}
	}
	if _, err := (FS{}).ReadDir("a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want no such folder", err)
	}
}
