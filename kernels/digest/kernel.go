package digest

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/weighmaster/weighmaster/kernels"
)

// window bounds what is read a second time to plant the controls, in bytes.
const window = blockSize

// Kernel describes the comparison of a folder with its manifest.
func Kernel() kernels.Kernel {
	k := kernels.Kernel{
		Name:    "digest",
		Version: "1.0.0",
		Spec:    "https://csrc.nist.gov/pubs/fips/180-4/upd1/final",
		Summary: "A folder holds the files of its manifest: names, sizes, SHA-256 and git blob ids, nothing more and nothing less.",
		Limits:  limits(),
		Gates:   []kernels.Gate{{Metric: "files_differing", Unit: "files", Compare: kernels.Equal, Value: 0}},
	}
	for _, c := range controls {
		k.Faults = append(k.Faults, c.fault)
	}
	k.SelfCheck = func(ctx context.Context) (kernels.Report, error) {
		r := k.NewReport()
		r.Metric("files_differing", "files", 0)
		if err := plant(ctx, &r.Controls, bytes.NewReader([]byte("weights")), 7); err != nil {
			return r, err
		}
		return r, r.Finish()
	}
	return k
}

// Verify reads the folder and reports every difference from the manifest that
// is wanted, with every control planted in a copy of the folder's own bytes.
func Verify(ctx context.Context, dir string, want Manifest) (kernels.Report, error) {
	r := Kernel().NewReport()
	digest, err := want.Digest()
	if err != nil {
		return r, err
	}
	got, err := ManifestOf(ctx, dir)
	if err != nil {
		return r, err
	}
	gotDigest, err := got.Digest()
	if err != nil {
		return r, err
	}
	total := int64(0)
	for _, e := range got.Files {
		total += e.Size
	}
	r.Inputs = append(r.Inputs,
		kernels.Input{Name: "manifest", Digest: digest, Size: sizeOf(want)},
		kernels.Input{Name: "folder", Digest: gotDigest, Size: total})
	r.Metric("files", "files", float64(len(got.Files)))
	r.Metric("size", "bytes", float64(total))
	differing := want.Compare(got)
	for _, f := range differing {
		r.Find(f)
	}
	r.Metric("files_differing", "files", float64(len(differing)))
	if err := plantIn(ctx, &r.Controls, dir, got); err != nil {
		return r, err
	}
	return r, r.Finish()
}

func sizeOf(m Manifest) (bytes int64) {
	for _, e := range m.Files {
		bytes += e.Size
	}
	return bytes
}

// plantIn plants the controls in the first file that has bytes. A folder
// without one has nothing to plant in, and its report stays undecided.
func plantIn(ctx context.Context, c *kernels.Controls, dir string, m Manifest) error {
	i := slices.IndexFunc(m.Files, func(e Entry) bool { return e.Size > 0 })
	if i < 0 {
		return nil
	}
	f, err := os.OpenInRoot(dir, filepath.FromSlash(m.Files[i].Name))
	if err != nil {
		return err
	}
	defer f.Close()
	return plant(ctx, c, f, min(m.Files[i].Size, window))
}

// copyOf is one file of the copy that faults are planted in.
type copyOf struct {
	name string
	r    io.ReaderAt
	size int64
}

// control plants one fault: change alters the copy or the manifest that is
// wanted; check and where are what the comparison then has to report.
type control struct {
	name, fault  string
	check, where string
	change       func(files []copyOf, want *Manifest) []copyOf
}

// The copy holds the input as "a", other bytes as "b" and an empty file "c".
var controls = []control{
	{"one bit flipped", "changed bytes", CheckBytes, "a", func(files []copyOf, _ *Manifest) []copyOf {
		files[0].r = flipped(files[0].r, files[0].size/2)
		return files
	}},
	{"last byte cut off", "truncated file", CheckSize, "a", func(files []copyOf, _ *Manifest) []copyOf {
		files[0].size--
		return files
	}},
	{"one byte appended", "extra bytes", CheckSize, "b", func(files []copyOf, _ *Manifest) []copyOf {
		files[1] = copyOf{"b", bytes.NewReader([]byte("other bytes.")), 12}
		return files
	}},
	{"two files under each other's name", "swapped names", CheckSwapped, "b", func(files []copyOf, _ *Manifest) []copyOf {
		files[0].name, files[1].name = "b", "a"
		return []copyOf{files[1], files[0], files[2]}
	}},
	{"empty file dropped", "missing file", CheckMissing, "c", func(files []copyOf, _ *Manifest) []copyOf {
		return files[:2]
	}},
	{"file added", "extra file", CheckExtra, "d", func(files []copyOf, _ *Manifest) []copyOf {
		return append(files, copyOf{"d", bytes.NewReader(nil), 0})
	}},
	{"another blob id wanted", "other git blob id", CheckGitBlob, "a", func(files []copyOf, want *Manifest) []copyOf {
		want.Files[0].GitBlob = want.Files[1].GitBlob
		return files
	}},
}

// plant runs every control over the first size bytes of r.
func plant(ctx context.Context, c *kernels.Controls, r io.ReaderAt, size int64) error {
	for _, control := range controls {
		files := []copyOf{{"a", r, size}, {"b", bytes.NewReader([]byte("other bytes")), 11}, {"c", bytes.NewReader(nil), 0}}
		want, err := manifestOf(ctx, files)
		if err != nil {
			return err
		}
		files = control.change(files, &want)
		got, err := manifestOf(ctx, files)
		if err != nil {
			return err
		}
		c.Judge(control.name, control.fault, want.Compare(got), func(f kernels.Finding) bool { return f.Check == control.check && f.Where == control.where })
	}
	return nil
}

// manifestOf is the manifest of a copy, by the same sums as that of a folder.
func manifestOf(ctx context.Context, files []copyOf) (Manifest, error) {
	m := Manifest{Schema: ManifestSchema}
	for _, f := range files {
		sums, err := Reader(ctx, io.NewSectionReader(f.r, 0, f.size), f.size)
		if err != nil {
			return Manifest{}, err
		}
		m.Files = append(m.Files, Entry{Name: f.name, Size: f.size, SHA256: sums.SHA256, GitBlob: sums.GitBlob})
	}
	return m, nil
}

// flipped lays one flipped bit over the byte at offset.
func flipped(r io.ReaderAt, offset int64) io.ReaderAt {
	b := []byte{0}
	if n, err := r.ReadAt(b, offset); n < 1 && err != nil {
		return r // the sums will report the same error
	}
	return kernels.Overlay{R: r, Patches: []kernels.Patch{{Offset: offset, Bytes: []byte{b[0] ^ 1}}}}
}
