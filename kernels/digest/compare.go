package digest

import (
	"context"
	"fmt"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
)

// The checks of a comparison, as findings name them.
const (
	CheckMissing = "file is missing"
	CheckExtra   = "file is extra"
	CheckSwapped = "names are swapped"
	CheckSize    = "size differs"
	CheckBytes   = "bytes differ"
	CheckGitBlob = "git blob id differs"
)

// Check reads the folder and gives a finding for every file that is missing,
// extra, changed, or there under another name. None means that the folder is
// the manifest's. An error means that it could not be read.
func (m Manifest) Check(ctx context.Context, dir string) ([]kernels.Finding, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	got, err := ManifestOf(ctx, dir)
	if err != nil {
		return nil, err
	}
	return m.Compare(got), nil
}

// Compare tells how got differs from m, which is wanted. Both are valid manifests.
func (m Manifest) Compare(got Manifest) []kernels.Finding {
	wanted, found := byName(m), byName(got)
	// Where else a digest is: a file under another name is renamed or swapped,
	// and saying so helps more than two changed files.
	owner := map[godigest.Digest]string{}
	for _, e := range m.Files {
		if e.Size > 0 {
			owner[e.SHA256] = e.Name
		}
	}
	var list []kernels.Finding
	for _, w := range m.Files {
		g, ok := found[w.Name]
		if !ok {
			list = append(list, kernels.Finding{Check: CheckMissing, Where: w.Name, Got: "no such file", Want: fmt.Sprintf("%s, %d bytes", w.SHA256, w.Size)})
			continue
		}
		list = append(list, compareEntry(g, w, owner)...)
	}
	for _, g := range got.Files {
		if _, ok := wanted[g.Name]; !ok {
			f := kernels.Finding{Check: CheckExtra, Where: g.Name, Got: fmt.Sprintf("%s, %d bytes", g.SHA256, g.Size), Want: "no such file"}
			if name := owner[g.SHA256]; name != "" {
				f.Hint = "it has the bytes of " + name
			}
			list = append(list, f)
		}
	}
	return list
}

func compareEntry(got, want Entry, owner map[godigest.Digest]string) []kernels.Finding {
	if got.SHA256 == want.SHA256 && got.Size == want.Size {
		if got.GitBlob == want.GitBlob {
			return nil
		}
		return []kernels.Finding{{Check: CheckGitBlob, Where: want.Name, Got: got.GitBlob, Want: want.GitBlob}}
	}
	f := kernels.Finding{Check: CheckBytes, Where: want.Name, Got: got.SHA256.String(), Want: want.SHA256.String()}
	if name := owner[got.SHA256]; name != "" && name != want.Name {
		f.Check, f.Hint = CheckSwapped, "it has the bytes of "+name
		return []kernels.Finding{f}
	}
	if got.Size != want.Size {
		f.Check, f.Got, f.Want = CheckSize, fmt.Sprintf("%d bytes", got.Size), fmt.Sprintf("%d bytes", want.Size)
	}
	return []kernels.Finding{f}
}

func byName(m Manifest) map[string]Entry {
	names := make(map[string]Entry, len(m.Files))
	for _, e := range m.Files {
		names[e.Name] = e
	}
	return names
}
