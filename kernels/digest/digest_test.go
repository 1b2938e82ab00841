package digest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"
)

// Known answers: SHA-256 of "abc" and of nothing from FIPS 180-4's examples, git
// blob ids as `git hash-object` prints them.
var known = []struct{ text, sha256, git string }{
	{"", "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"},
	{"abc", "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f"},
	{"hello\n", "sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03", "ce013625030ba8dba906f756967f9e9ca394464a"},
}

func TestKnownSums(t *testing.T) {
	ctx := context.Background()
	for _, k := range known {
		size := int64(len(k.text))
		for how, r := range map[string]io.Reader{
			"whole": strings.NewReader(k.text), "byte by byte": iotest.OneByteReader(strings.NewReader(k.text)),
			"data with the end": iotest.DataErrReader(strings.NewReader(k.text)),
		} {
			got, err := Reader(ctx, r, size)
			if err != nil || got.SHA256.String() != k.sha256 || got.GitBlob != k.git || got.Size != size {
				t.Errorf("%q, %s: got %+v, %v; want %s and %s", k.text, how, got, err, k.sha256, k.git)
			}
		}
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(k.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := File(ctx, path); err != nil || got.SHA256.String() != k.sha256 || got.GitBlob != k.git {
			t.Errorf("%q as a file: got %+v, %v", k.text, got, err)
		}
		got, err := SHA256(ctx, strings.NewReader(k.text+"beyond"), size)
		if err != nil || got.String() != k.sha256 {
			t.Errorf("%q: SHA256: got %s, %v; want %s", k.text, got, err, k.sha256)
		}
	}
}

func TestReaderAcrossBlocks(t *testing.T) {
	for _, size := range []int64{blockSize - 1, blockSize, blockSize + 1, 3*blockSize + 7} {
		text := bytes.Repeat([]byte{7}, int(size))
		whole, err := Reader(context.Background(), bytes.NewReader(text), size)
		if err != nil {
			t.Fatal(err)
		}
		h := NewHasher(size)
		for rest := text; len(rest) > 0; {
			n := min(len(rest), 4099)
			if _, err := h.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if h.Sums() != whole {
			t.Errorf("%d bytes: got %+v in pieces, want %+v", size, h.Sums(), whole)
		}
	}
}

func TestReaderOfAnotherSize(t *testing.T) {
	for name, c := range map[string]struct {
		text, want string
		size       int64
	}{
		"short":         {"abc", "got 3 bytes, want 4", 4},
		"long":          {"abcd", "got more than 3 bytes, want 3", 3},
		"expected none": {"abc", "got more than 0 bytes, want 0", 0},
	} {
		_, err := Reader(context.Background(), strings.NewReader(c.text), c.size)
		var bad *SizeError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
	if _, err := SHA256(context.Background(), strings.NewReader("abc"), 4); err == nil || !strings.Contains(err.Error(), "got 3 bytes, want 4") {
		t.Errorf("SHA256 of a short reader: got %v, want a refusal", err)
	}
}

func TestHasherRefusesMoreThanAnnounced(t *testing.T) {
	h := NewHasher(3)
	if n, err := h.Write([]byte("abcd")); n != 0 || err == nil {
		t.Errorf("got %d and %v, want a refusal", n, err)
	}
	if s := h.Sums(); s.GitBlob != "" || s.Size != 0 {
		t.Errorf("got %+v, want no git id before all bytes came", s)
	}
	if _, err := h.Write([]byte("abc")); err != nil {
		t.Error(err)
	}
	if s := h.Sums(); s.GitBlob != known[1].git {
		t.Errorf("got %s, want %s", s.GitBlob, known[1].git)
	}
}

func TestReadErrorsAndCancelling(t *testing.T) {
	broken := errors.New("disk on fire")
	r := io.MultiReader(strings.NewReader("ab"), iotest.ErrReader(broken))
	if _, err := Reader(context.Background(), r, 3); !errors.Is(err, broken) || !strings.Contains(err.Error(), "byte 2") {
		t.Errorf("got %v, want the reader's error and where", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Reader(ctx, strings.NewReader("abc"), 3); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func TestFileRefusesWhatIsNotRegular(t *testing.T) {
	if _, err := File(context.Background(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "want a regular file") {
		t.Errorf("a folder: got %v, want a refusal", err)
	}
	if _, err := File(context.Background(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: got %v, want %v", err, os.ErrNotExist)
	}
}

// onErr is a context that calls a function when it is first asked whether it
// ended, which is after the file was opened and before its first byte is read.
type onErr struct {
	context.Context
	once *sync.Once
	do   func()
}

func (c onErr) Err() error {
	c.once.Do(c.do)
	return c.Context.Err()
}

func TestFileChangesWhileRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for name, c := range map[string]struct {
		change func() error
		want   string
	}{
		"grown": {func() error { return os.WriteFile(path, []byte("abcdef"), 0o644) }, "got more than 3 bytes, want 3: it changed while it was read"},
		"cut":   {func() error { return os.Truncate(path, 1) }, "got 1 bytes, want 3: it changed while it was read"},
		"rewritten at the same size": {func() error {
			if err := os.WriteFile(path, []byte("xyz"), 0o644); err != nil {
				return err
			}
			return os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)) // clocks of file systems are coarse
		}, "it changed while it was read (3 bytes, then 3)"},
	} {
		if err := os.WriteFile(path, []byte("abc"), 0o644); err != nil {
			t.Fatal(err)
		}
		ctx := onErr{context.Background(), new(sync.Once), func() {
			if err := c.change(); err != nil {
				t.Error(err)
			}
		}}
		if _, err := File(ctx, path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("abc"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := file(context.Background(), path, func() (os.FileInfo, error) { return os.Stat(path) }, func() (*os.File, error) { return os.Open(other) })
	if err == nil || !strings.Contains(err.Error(), "another file took its place") {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for i, k := range known {
		path := filepath.Join(dir, string(rune('a'+i)))
		if err := os.WriteFile(path, []byte(k.text), 0o644); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	sums, err := Files(context.Background(), paths, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range sums {
		if s.GitBlob != known[i].git {
			t.Errorf("%s: got %s, want %s", paths[i], s.GitBlob, known[i].git)
		}
	}
	if _, err := Files(context.Background(), append(paths, dir), 0); err == nil || !strings.Contains(err.Error(), "want a regular file") {
		t.Errorf("got %v, want the refusal of the folder", err)
	}
}

func BenchmarkSHA256(b *testing.B) {
	text := make([]byte, 64<<20)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := SHA256(context.Background(), bytes.NewReader(text), int64(len(text))); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReader(b *testing.B) {
	text := make([]byte, 64<<20)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := Reader(context.Background(), bytes.NewReader(text), int64(len(text))); err != nil {
			b.Fatal(err)
		}
	}
}
