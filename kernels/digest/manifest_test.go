package digest

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/kernels"
)

// folder writes files by name and returns the folder.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func manifest(t *testing.T, dir string) Manifest {
	t.Helper()
	m, err := ManifestOf(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestManifest(t *testing.T) {
	dir := folder(t, map[string]string{"b": "abc", "a/z": "", "a.txt": "hello\n", "a/b/c": "x"})
	m := manifest(t, dir)
	var names []string
	for _, e := range m.Files {
		names = append(names, e.Name)
	}
	if want := []string{"a.txt", "a/b/c", "a/z", "b"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q (byte order, the empty file included)", names, want)
	}
	text, err := m.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(text, []byte(`{"files":[{"gitBlob":"ce013625030ba8dba906f756967f9e9ca394464a","name":"a.txt","sha256":"sha256:5891b5`)) {
		t.Errorf("got %s, want RFC 8785 JSON", text)
	}
	again, err := ParseManifest(text)
	if err != nil || !slices.Equal(again.Files, m.Files) {
		t.Errorf("parsed again: got %+v, %v", again, err)
	}
	found, err := m.Check(context.Background(), dir)
	if err != nil || len(found) > 0 {
		t.Errorf("its own folder: got %v, %v", found, err)
	}
	if empty := (Manifest{Schema: ManifestSchema}); true {
		if text, err := empty.Canonical(); err != nil || !bytes.Contains(text, []byte(`"files":[]`)) {
			t.Errorf("empty folder: got %s, %v", text, err)
		}
	}
}

// TestManifestAgreesWithSha256sum compares with digests that another tool wrote.
func TestManifestAgreesWithSha256sum(t *testing.T) {
	f, err := os.Open(shared.Path(t, "data", "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		sum, name, _ := strings.Cut(lines.Text(), "  ")
		if name, ok := strings.CutPrefix(strings.TrimPrefix(name, "./"), "llama-odd/"); ok {
			want[name] = "sha256:" + sum
		}
	}
	m := manifest(t, shared.Path(t, "data", "llama-odd"))
	if len(want) == 0 || len(m.Files) != len(want) {
		t.Fatalf("got %d files, want %d", len(m.Files), len(want))
	}
	for _, e := range m.Files {
		if e.SHA256.String() != want[e.Name] {
			t.Errorf("%s: got %s, want %s", e.Name, e.SHA256, want[e.Name])
		}
	}
}

func TestManifestCheckNamesWhatDiffers(t *testing.T) {
	files := map[string]string{"a": "alpha", "b": "bravo", "c": "", "d": "delta"}
	for name, c := range map[string]struct {
		change func(m map[string]string)
		want   string
	}{
		"missing":           {func(m map[string]string) { delete(m, "a") }, "file is missing: a"},
		"empty one missing": {func(m map[string]string) { delete(m, "c") }, "file is missing: c"},
		"extra":             {func(m map[string]string) { m["e"] = "" }, "file is extra: e"},
		"swapped":           {func(m map[string]string) { m["a"], m["b"] = m["b"], m["a"] }, "names are swapped: a"},
		"renamed":           {func(m map[string]string) { m["x"] = m["a"]; delete(m, "a") }, "it has the bytes of a"},
		"changed":           {func(m map[string]string) { m["a"] = "alphA" }, "bytes differ: a"},
		"longer":            {func(m map[string]string) { m["a"] = "alpha." }, "size differs: a: got 6 bytes, want 5 bytes"},
		"emptied":           {func(m map[string]string) { m["a"] = "" }, "size differs: a: got 0 bytes"},
	} {
		other := map[string]string{}
		for name, text := range files {
			other[name] = text
		}
		c.change(other)
		dir := folder(t, other)
		found, err := manifest(t, folder(t, files)).Check(context.Background(), dir)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, f := range found {
			all = append(all, f.String())
		}
		if !strings.Contains(strings.Join(all, "\n"), c.want) {
			t.Errorf("%s: got %q, want %q", name, all, c.want)
		}
		r, err := Verify(context.Background(), dir, manifest(t, folder(t, files)))
		if err != nil || r.Verdict != kernels.Failed || r.Controls.Missed != 0 {
			t.Errorf("%s: got %s, %d missed, %v, want failed", name, r.Verdict, r.Controls.Missed, err)
		}
	}
}

func TestLinks(t *testing.T) {
	dir := folder(t, map[string]string{"blobs/x": "abc"})
	outside := folder(t, map[string]string{"secret": "abc"})
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			shared.Missing(t, "no symbolic links here: %v", err)
		}
	}
	link("blobs/x", "model")
	if m := manifest(t, dir); len(m.Files) != 2 || m.Files[1].Name != "model" || m.Files[1].GitBlob != known[1].git {
		t.Errorf("a link inside: got %+v, want it resolved", m.Files)
	}
	for to, want := range map[string]string{
		filepath.Join(outside, "secret"): "a link has to stay inside",
		"../../etc/hosts":                "a link has to stay inside",
		"nowhere":                        "a link has to stay inside",
		"blobs":                          "want a regular file or a link to one",
	} {
		link(to, "bad")
		if _, err := ManifestOf(context.Background(), dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a link to %s: got %v, want %q", to, err, want)
		}
		if err := os.Remove(filepath.Join(dir, "bad")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCheckName(t *testing.T) {
	for _, name := range []string{"", "/etc/passwd", "../x", "a/../b", "a/..", "./a", "a//b", "a/", ".", "..", `a\b`, `..\a`, "a\x00", "C:x", "a\xff", strings.Repeat("n", maxName+1)} {
		if CheckName(name) == nil {
			t.Errorf("%.20q is accepted, want a refusal", name)
		}
	}
	for _, name := range []string{"a", "a/b", "..a", "a..b", ".gitattributes", "ä/重 x"} {
		if err := CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestParseManifestRefuses(t *testing.T) {
	good, err := manifest(t, folder(t, map[string]string{"a": "abc", "b": "x"})).Canonical()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ from, to, want string }{
		"other schema":    {"manifest/v1", "manifest/v9", "schema"},
		"absolute name":   {`"name":"a"`, `"name":"/a"`, "a relative path"},
		"leaving name":    {`"name":"a"`, `"name":"../a"`, "empty element"},
		"not sorted":      {`"name":"a"`, `"name":"c"`, "in byte order"},
		"twice":           {`"name":"a"`, `"name":"b"`, "in byte order"},
		"file and folder": {`"name":"b"`, `"name":"a/b"`, "not also a folder"},
		"weak digest":     {`sha256:ba7816`, `md5:ba7816`, "64 hex digits"},
		"negative size":   {`"size":3`, `"size":-3`, "want a size"},
		"duplicate key":   {`"size":3`, `"size":9,"size":3`, "canonical form"},
		"another case":    {`"size":3`, `"Size":3`, "canonical form"},
		"unknown field":   {`"size":3`, `"mode":3,"size":3`, "unknown field"},
		"white space":     {`{"files"`, `{ "files"`, "canonical form"},
		"more after it":   {`v1"}`, `v1"}{}`, "more after the object"},
	} {
		text := strings.Replace(string(good), c.from, c.to, 1)
		if text == string(good) {
			t.Fatalf("%s: the manifest has no %s", name, c.from)
		}
		if _, err := ParseManifest([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want a refusal that says %q", name, err, c.want)
		}
	}
}

func TestKernelFindsEveryPlantedFault(t *testing.T) {
	self, err := Kernel().SelfCheck(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	dir := shared.Path(t, "data", "llama-odd", "hf")
	real, err := Verify(context.Background(), dir, manifest(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]kernels.Report{"built-in": self, "llama-odd": real} {
		if r.Verdict != kernels.Passed || r.Controls.Planted != len(controls) {
			t.Errorf("%s: got %s, %+v", name, r.Verdict, r.Controls)
		}
		if err := Kernel().CheckFaults(r.Controls); err != nil {
			t.Error(err)
		}
	}
	empty := folder(t, map[string]string{"a": ""})
	if r, err := Verify(context.Background(), empty, manifest(t, empty)); err != nil || r.Verdict != kernels.Undecided {
		t.Errorf("nothing to plant in: got %s, %v, want undecided", r.Verdict, err)
	}
}

func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(`{"files":[],"schema":"` + ManifestSchema + `"}`))
	f.Add([]byte(`{"files":[{"gitBlob":"` + known[1].git + `","name":"a","sha256":"` + known[1].sha256 + `","size":3}],"schema":"` + ManifestSchema + `"}`))
	f.Add([]byte(`{"files":[{"name":"../a"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := ParseManifest(text)
		if err != nil {
			return
		}
		if again, err := m.Canonical(); err != nil || !bytes.Equal(again, text) {
			t.Fatalf("got %s, %v, want what was parsed", again, err)
		}
	})
}
