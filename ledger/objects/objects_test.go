package objects_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/ledger/objects"
)

func open(t *testing.T) (*objects.Store, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := objects.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

func put(t *testing.T, s *objects.Store, text string, public bool) objects.Object {
	t.Helper()
	o, err := s.Put(t.Context(), "text/plain", public, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func path(dir string, d godigest.Digest) string {
	return filepath.Join(dir, "sha256", d.Encoded()[:2], d.Encoded())
}

func TestPutGet(t *testing.T) {
	s, dir := open(t)
	for _, text := range []string{"", "a", strings.Repeat("long ", 100_000)} {
		o := put(t, s, text, true)
		if o.Digest != godigest.FromString(text) || o.Size != int64(len(text)) || !o.Public || o.MediaType != "text/plain" {
			t.Errorf("put %d bytes: %+v", len(text), o)
		}
		data, got, err := s.Get(t.Context(), o.Digest)
		if err != nil || string(data) != text || got != o {
			t.Errorf("get %d bytes: %d bytes, %+v, %v", len(text), len(data), got, err)
		}
		if info, err := os.Stat(path(dir, o.Digest)); err != nil || info.Mode().Perm() != 0o444 {
			t.Errorf("file: %v, %v; want read-only", info, err)
		}
	}
	n := 0
	for _, err := range s.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 3 {
		t.Errorf("%d objects listed, want 3", n)
	}
	if found, err := s.Check(t.Context()); err != nil || len(found) != 0 {
		t.Errorf("check: %v, %v", found, err)
	}
	if _, _, err := s.Get(t.Context(), godigest.FromString("absent")); !errors.Is(err, objects.ErrNotFound) {
		t.Errorf("get an absent object: %v, want ErrNotFound", err)
	}
	for _, d := range []godigest.Digest{"", "sha256:", "sha256:../../../../etc/passwd", "sha512:" + godigest.Digest(strings.Repeat("a", 128))} {
		if _, _, err := s.Get(t.Context(), d); err == nil || !strings.Contains(err.Error(), "want sha256:") {
			t.Errorf("get %q: %v, want the digest refused", d, err)
		}
	}
}

func TestOpenNeverCreates(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	if _, err := objects.Open(missing); err == nil {
		t.Error("opened a folder that is not there")
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("the folder was created")
	}
}

func TestPrivateWins(t *testing.T) {
	s, _ := open(t)
	o := put(t, s, "report", false)
	if again := put(t, s, "report", true); again.Public {
		t.Error("a second put made a private object public")
	}
	if o, err := s.Mark(t.Context(), o.Digest, true); err != nil || !o.Public {
		t.Fatal(o, err)
	}
	if again := put(t, s, "report", false); again.Public {
		t.Error("a private put left the object public")
	}
	if o, err := s.Stat(t.Context(), o.Digest); err != nil || o.Public {
		t.Errorf("%+v, %v; want private", o, err)
	}
}

func TestFailedPutLeavesNothing(t *testing.T) {
	s, dir := open(t)
	broken := io.MultiReader(strings.NewReader("half"), iotest.ErrReader(errors.New("broken")))
	if _, err := s.Put(t.Context(), "text/plain", true, broken); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("put: %v, want the reader's error", err)
	}
	if _, err := s.Put(t.Context(), "no media type at all", true, strings.NewReader("x")); err == nil {
		t.Error("put with a bad media type succeeded")
	}
	files, err := os.ReadDir(filepath.Join(dir, "sha256"))
	if err != nil || len(files) != 0 {
		t.Errorf("%v, %v; want nothing left", files, err)
	}
}

func TestConcurrentPuts(t *testing.T) {
	s, _ := open(t)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if _, err := s.Put(t.Context(), "text/plain", true, strings.NewReader("same")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if data, _, err := s.Get(t.Context(), godigest.FromString("same")); err != nil || string(data) != "same" {
		t.Errorf("%q, %v", data, err)
	}
	if found, err := s.Check(t.Context()); err != nil || len(found) != 0 {
		t.Errorf("check: %v, %v", found, err)
	}
}

// TestTampering changes what lies on the disk. Get and Check must both say
// what is wrong; get is empty where Get of that object cannot see it.
func TestTampering(t *testing.T) {
	write := func(t *testing.T, path, text string) {
		t.Helper()
		os.Remove(path)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name       string
		attack     func(t *testing.T, data, other string)
		get, check string
	}{
		{"changed", func(t *testing.T, data, _ string) { write(t, data, "two") }, "digest: got", "digest: got"},
		{"grown", func(t *testing.T, data, _ string) { write(t, data, "one and more") }, "size: got 12 bytes, want 3", "size: got 12"},
		{"cut", func(t *testing.T, data, _ string) { write(t, data, "o") }, "size: got 1 bytes", "size: got 1"},
		{"removed", func(t *testing.T, data, _ string) { os.Remove(data) }, "file: got none", "file: got none"},
		{"removed with its description", func(t *testing.T, data, _ string) { os.Remove(data); os.Remove(data + ".json") }, "not found", "an object that a bundle names"},
		{"swapped", func(t *testing.T, data, other string) {
			if err := errors.Join(os.Rename(data, data+"x"), os.Rename(other, data), os.Rename(data+"x", other)); err != nil {
				t.Fatal(err)
			}
		}, "digest: got", "digest: got"},
		{"a description swapped", func(t *testing.T, data, other string) {
			if err := os.Rename(other+".json", data+".json"); err != nil {
				t.Fatal(err)
			}
		}, "digest in the description", "digest in the description"},
		{"a description with more keys", func(t *testing.T, data, _ string) { write(t, data+".json", `{"digest":"x","more":1}`) }, "unknown field", "unknown field"},
		{"a stray file", func(t *testing.T, data, _ string) { write(t, filepath.Join(filepath.Dir(data), "stray"), "") }, "", "a name or place that no object has"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, dir := open(t)
			one, other := put(t, s, "one", true), put(t, s, "six", true)
			c.attack(t, path(dir, one.Digest), path(dir, other.Digest))
			_, _, err := s.Get(t.Context(), one.Digest)
			if c.get == "" && err != nil || c.get != "" && (err == nil || !strings.Contains(err.Error(), c.get)) {
				t.Errorf("get: %v, want %q", err, c.get)
			}
			found, err := s.Check(t.Context(), one.Digest, other.Digest)
			if err != nil {
				t.Fatal(err)
			}
			var all bytes.Buffer
			for _, f := range found {
				all.WriteString(f.Error() + "\n")
			}
			if !strings.Contains(all.String(), c.check) {
				t.Errorf("check: %s, want %q", all.String(), c.check)
			}
		})
	}
}
