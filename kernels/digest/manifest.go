package digest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
)

// ManifestSchema identifies the JSON form of a [Manifest].
const ManifestSchema = kernels.BaseURI + "schema/manifest/v1"

// Limits of a manifest.
const (
	MaxFiles        = 1_000_000 // files in a folder
	MaxManifestSize = 256 << 20 // bytes of its JSON
	maxName         = 4096      // bytes of a name
)

// Entry is one file of a folder.
type Entry struct {
	Name    string          `json:"name"` // path from the folder, with slashes
	Size    int64           `json:"size"` // bytes
	SHA256  godigest.Digest `json:"sha256"`
	GitBlob string          `json:"gitBlob"`
}

// Manifest is a folder by content: every file, empty ones included, by name,
// size and digests, sorted by name in byte order. Its digest changes when a
// byte, a name or the set of files does.
type Manifest struct {
	Schema string  `json:"schema"`
	Files  []Entry `json:"files"`
}

// ManifestOf reads a folder. Symbolic links are resolved and have to lead to
// regular files inside it; pipes, sockets and devices are refused, and so are
// names that are not plain on every system. Empty folders leave no trace.
func ManifestOf(ctx context.Context, dir string) (Manifest, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Manifest{}, fmt.Errorf("digest: %w", err)
	}
	defer root.Close()
	names, err := walk(ctx, root)
	if err != nil {
		return Manifest{}, err
	}
	sums, err := all(ctx, names, 0, func(ctx context.Context, name string) (Sums, error) {
		local := filepath.FromSlash(name)
		return file(ctx, name, func() (os.FileInfo, error) { return root.Stat(local) }, func() (*os.File, error) { return root.Open(local) })
	})
	if err != nil {
		return Manifest{}, err
	}
	m := Manifest{Schema: ManifestSchema, Files: make([]Entry, len(names))}
	for i, name := range names {
		m.Files[i] = Entry{Name: name, Size: sums[i].Size, SHA256: sums[i].SHA256, GitBlob: sums[i].GitBlob}
	}
	return m, nil
}

// walk lists the files of a folder, sorted by name in byte order.
func walk(ctx context.Context, root *os.Root) ([]string, error) {
	var names []string
	err := fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("digest: %w", err)
		}
		if err := ctx.Err(); err != nil || d.IsDir() {
			return err
		}
		if err := CheckName(name); err != nil {
			return err
		}
		info, err := root.Stat(filepath.FromSlash(name)) // follows links, refuses those that leave
		if err != nil {
			return fmt.Errorf("digest: %s: %w; a link has to stay inside the folder", name, err)
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("digest: %s: got %s, want a regular file or a link to one", name, info.Mode().Type())
		}
		if names = append(names, name); len(names) > MaxFiles {
			return fmt.Errorf("digest: got more than %d files, want at most that many", MaxFiles)
		}
		return nil
	})
	slices.Sort(names) // a walk goes folder by folder, which is another order
	return names, err
}

// CheckName refuses a name that is not a plain relative path with slashes:
// absolute, with "." or ".." or empty elements, with a backslash, a NUL or a
// drive letter, not UTF-8, or longer than 4096 bytes.
func CheckName(name string) error {
	bad := func(want string) error { return fmt.Errorf("digest: name %.200q: want %s", name, want) }
	switch {
	case name == "" || len(name) > maxName:
		return bad(fmt.Sprintf("1 to %d bytes", maxName))
	case strings.HasPrefix(name, "/"):
		return bad("a relative path")
	case strings.ContainsAny(name, "\\\x00"):
		return bad("no backslash and no NUL")
	case len(name) > 1 && name[1] == ':':
		return bad("no drive letter")
	case !utf8.ValidString(name):
		return bad("UTF-8")
	case !fs.ValidPath(name) || name == ".":
		return bad(`no ".", ".." or empty element`)
	}
	return nil
}

var (
	sha256Form = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	gitForm    = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// Validate refuses another schema, a name that [CheckName] refuses, names that
// are not sorted or come twice, a file that is also a folder, a negative size,
// and digests of another form.
func (m Manifest) Validate() error {
	if m.Schema != ManifestSchema {
		return fmt.Errorf("digest: manifest: schema: got %.200q, want %q", m.Schema, ManifestSchema)
	}
	if len(m.Files) > MaxFiles {
		return fmt.Errorf("digest: manifest: got %d files, want at most %d", len(m.Files), MaxFiles)
	}
	files := make(map[string]bool, len(m.Files))
	for i, e := range m.Files {
		if err := CheckName(e.Name); err != nil {
			return err
		}
		if i > 0 && m.Files[i-1].Name >= e.Name {
			return fmt.Errorf("digest: manifest: got %q after %q, want each name once, in byte order", e.Name, m.Files[i-1].Name)
		}
		for j := range len(e.Name) {
			if e.Name[j] == '/' && files[e.Name[:j]] {
				return fmt.Errorf("digest: manifest: got %q below %q, want a file that is not also a folder", e.Name, e.Name[:j])
			}
		}
		files[e.Name] = true
		if e.Size < 0 || !sha256Form.MatchString(string(e.SHA256)) || !gitForm.MatchString(e.GitBlob) {
			return fmt.Errorf("digest: manifest: %s: got size %d, sha256 %.80q, gitBlob %.80q; want a size, sha256:<64 hex digits> and 40 hex digits", e.Name, e.Size, e.SHA256, e.GitBlob)
		}
	}
	return nil
}

// Canonical is the RFC 8785 JSON of a valid manifest.
func (m Manifest) Canonical() ([]byte, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if m.Files == nil {
		m.Files = []Entry{}
	}
	plain, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("digest: manifest: %w", err)
	}
	return jsoncanonicalizer.Transform(plain)
}

// Digest is the SHA-256 of [Manifest.Canonical].
func (m Manifest) Digest() (godigest.Digest, error) {
	b, err := m.Canonical()
	if err != nil {
		return "", err
	}
	return godigest.FromBytes(b), nil
}

// ParseManifest reads a manifest in its canonical form, and no other: two
// texts of one manifest would have two digests.
func ParseManifest(text []byte) (Manifest, error) {
	if len(text) > MaxManifestSize {
		return Manifest{}, fmt.Errorf("digest: manifest: got %d bytes, want at most %d", len(text), MaxManifestSize)
	}
	var m Manifest
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return Manifest{}, fmt.Errorf("digest: manifest: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Manifest{}, errors.New("digest: manifest: got more after the object, want nothing")
	}
	canonical, err := m.Canonical()
	if err != nil {
		return Manifest{}, err
	}
	if !bytes.Equal(canonical, text) {
		return Manifest{}, errors.New("digest: manifest: got JSON that is not in canonical form (RFC 8785), want the bytes that its digest covers")
	}
	return m, nil
}
