package stages

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/weighmaster/weighmaster/kernels/digest"
)

// FileArtifact describes one finished file.
func FileArtifact(f File) Artifact {
	return Artifact{Name: f.Name, Path: f.Path, Digest: f.Sums.SHA256, Files: []File{f}}
}

// FolderArtifact reads a folder under a manifest of names, sizes and digests.
func FolderArtifact(ctx context.Context, name, dir string) (Artifact, error) {
	m, err := digest.ManifestOf(ctx, dir)
	if err != nil {
		return Artifact{}, err
	}
	a := Artifact{Name: name, Path: dir, Multi: true}
	if a.Digest, err = m.Digest(); err != nil {
		return Artifact{}, err
	}
	for _, e := range m.Files {
		a.Files = append(a.Files, File{
			Name: e.Name, Path: filepath.Join(dir, filepath.FromSlash(e.Name)),
			Sums: digest.Sums{Size: e.Size, SHA256: e.SHA256, GitBlob: e.GitBlob},
		})
	}
	return a, nil
}

// Check hashes the artifact's bytes again and says what changed.
func (a Artifact) Check(ctx context.Context) error {
	if !a.Multi {
		sums, err := digest.File(ctx, a.Path)
		if err != nil {
			return err
		}
		if sums.SHA256 != a.Digest {
			return fmt.Errorf("%s changed since it was made: got %s, want %s; restore it or run its stage again", a.Path, sums.SHA256, a.Digest)
		}
		return nil
	}
	now, err := FolderArtifact(ctx, a.Name, a.Path)
	if err != nil {
		return err
	}
	if now.Digest == a.Digest {
		return nil
	}
	return fmt.Errorf("%s changed since it was made: %s; restore it or run its stage again", a.Path, difference(now, a))
}

// difference names the first file that differs between two readings of a folder.
func difference(got, want Artifact) string {
	wanted := map[string]File{}
	for _, f := range want.Files {
		wanted[f.Name] = f
	}
	for _, f := range got.Files {
		w, ok := wanted[f.Name]
		if !ok {
			return fmt.Sprintf("%s is new", f.Name)
		}
		if w.Sums.SHA256 != f.Sums.SHA256 {
			return fmt.Sprintf("%s: got %s, want %s", f.Name, f.Sums.SHA256, w.Sums.SHA256)
		}
		delete(wanted, f.Name)
	}
	for _, f := range want.Files {
		if _, missing := wanted[f.Name]; missing {
			return fmt.Sprintf("%s is gone", f.Name)
		}
	}
	return fmt.Sprintf("manifest %s, want %s", got.Digest, want.Digest)
}

// readFile describes one existing file by its bytes.
func readFile(ctx context.Context, name, path string) (File, error) {
	sums, err := digest.File(ctx, path)
	return File{Name: name, Path: path, Sums: sums}, err
}
