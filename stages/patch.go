package stages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/gitsource"
)

// Patch takes the source of one commit of a git repository and applies a patch
// to it. What it gives is a folder of its own; a checkout is only read. Every
// file is bound to the commit by its git object id.
type Patch struct{}

// Uses implements [Stage].
func (Patch) Uses() string { return "patch" }

// patchWith is with: of the stage.
type patchWith struct {
	Source string `json:"source"` // checkout, bare repository or URL
	Commit string `json:"commit"` // 40 hex digits
	Patch  string `json:"patch"`  // file; the source stays as it is when empty
}

const (
	maxPatch       = 64 << 20 // bytes
	factCommit     = "commit"
	factPatch      = "patch" // sha256:… of the patch, or none
	noPatch        = "none"
	sourceMetadata = "git" // scratch repository below run.Dir
)

// patchedFile is a file that a patch changed. Before or After is absent for one that it made or removed.
type patchedFile struct {
	Name   string      `json:"name"`
	Before *patchState `json:"before,omitempty"`
	After  *patchState `json:"after,omitempty"`
}

type patchState struct {
	Size    int64           `json:"size"`
	SHA256  godigest.Digest `json:"sha256"`
	GitBlob string          `json:"gitBlob"`
}

// patchRecord is the evidence patch/changed.
type patchRecord struct {
	Commit string        `json:"commit"`
	Tree   string        `json:"tree"`            // git's id of the commit's tree
	Patch  string        `json:"patch"`           // sha256:… or none
	Files  []patchedFile `json:"files"`           // sorted by name
	From   string        `json:"from,omitempty"`  // URL, where it was fetched
	Count  int           `json:"sourceFiles"`     // files of the commit
	Links  []string      `json:"links,omitempty"` // symbolic links of the commit
}

// Resolve implements [Resolver].
func (Patch) Resolve(ctx context.Context, run *Run) ([]Dependency, error) {
	var with patchWith
	if err := decodeWith(run, &with); err != nil {
		return nil, err
	}
	list, _, err := patchDependencies(ctx, run, with)
	return list, err
}

// patchDependencies are git and the patch; the patch's bytes come with them.
func patchDependencies(ctx context.Context, run *Run, with patchWith) ([]Dependency, []byte, error) {
	program, err := gitsource.Program()
	if err != nil {
		return nil, nil, err
	}
	git, err := readFile(ctx, "git", program)
	if err != nil {
		return nil, nil, err
	}
	list := []Dependency{{Name: "tool/git", Digest: git.Sums.SHA256}}
	if with.Patch == "" {
		return list, nil, nil
	}
	path := below(run.Project, with.Patch)
	if st, err := os.Stat(path); err != nil {
		return nil, nil, fmt.Errorf("patch: %w", err)
	} else if !st.Mode().IsRegular() || st.Size() > maxPatch {
		return nil, nil, fmt.Errorf("patch %s: got %s of %d bytes, want a regular file of at most %d", path, st.Mode().Type(), st.Size(), maxPatch)
	}
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("patch: %w", err)
	}
	return append(list, Dependency{Name: "patch/" + filepath.Base(path), Digest: godigest.FromBytes(body)}), body, nil
}

// Run implements [Stage].
func (Patch) Run(ctx context.Context, run *Run) (*Outcome, error) {
	var with patchWith
	if err := decodeWith(run, &with); err != nil {
		return nil, err
	}
	if err := gitsource.CheckCommit(with.Commit); err != nil {
		return nil, err
	}
	out := &Outcome{Verdict: schemas.Passed, Facts: map[string]string{factCommit: with.Commit, factPatch: noPatch}}
	var body []byte
	var err error
	if out.Dependencies, body, err = patchDependencies(ctx, run, with); err != nil {
		return out, err
	}
	version, err := gitsource.Version(ctx)
	if err != nil {
		return out, err
	}
	out.Internal = map[string]any{"git": version}
	scratch := filepath.Join(run.Dir, sourceMetadata)
	from := with.Source
	if !strings.Contains(from, "://") {
		from = below(run.Project, from)
	}
	source, err := gitsource.Open(ctx, from, with.Commit, scratch)
	if err != nil {
		return out, err
	}
	out.Dependencies = append(out.Dependencies, Dependency{Name: "source/" + source.Name, GitOID: with.Commit, URI: source.URL})
	if err := source.Clean(ctx, with.Commit); err != nil {
		return out, err
	}
	dir := filepath.Join(run.Dir, run.Stage)
	tree, err := source.Export(ctx, with.Commit, dir)
	if err != nil {
		return out, err
	}
	if err := os.RemoveAll(scratch); err != nil {
		return out, err
	}
	out.Facts["tree"] = tree.ID
	if body != nil {
		if err := applyPatch(ctx, run, tree, dir, body, out); err != nil {
			return out, err
		}
	}
	return out, concludePatch(ctx, run, tree, source.URL, dir, out)
}

// applyPatch applies the very bytes that were hashed, and keeps them.
func applyPatch(ctx context.Context, run *Run, tree *gitsource.Tree, dir string, body []byte, out *Outcome) error {
	d, size, err := run.Objects.Put(ctx, "text/x-diff", true, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("store the patch: %w", err)
	}
	out.Facts[factPatch] = d.String()
	out.Evidence = append(out.Evidence, Evidence{Name: "patch/applied", Digest: d, MediaType: "text/x-diff", Size: size})
	file := filepath.Join(run.Dir, "patch.diff")
	if err := os.WriteFile(file, body, 0o444); err != nil {
		return err
	}
	return errors.Join(gitsource.Apply(ctx, tree, dir, file), os.Remove(file))
}

// concludePatch reads the folder again and tells what the patch changed. A file
// that differs from the commit beside the patch's would be found here.
func concludePatch(ctx context.Context, run *Run, tree *gitsource.Tree, from, dir string, out *Outcome) error {
	if err := readOnly(dir); err != nil {
		return err
	}
	artifact, err := FolderArtifact(ctx, run.Stage, dir)
	if err != nil {
		return err
	}
	record := patchRecord{Commit: tree.Commit, Tree: tree.ID, Patch: out.Facts[factPatch], From: from, Count: len(tree.Files)}
	if record.Files, record.Links = changedFiles(tree, artifact); len(record.Files) > 0 && record.Patch == noPatch {
		return fmt.Errorf("%s differs from the commit, and no patch was applied", record.Files[0].Name)
	}
	if len(record.Files) == 0 && record.Patch != noPatch {
		return errors.New("patch: it changed no file")
	}
	evidence, err := putEvidence(ctx, run.Objects, "patch/changed", record)
	if err != nil {
		return err
	}
	out.Evidence = append(out.Evidence, evidence)
	names := make([]string, len(record.Files))
	for i, f := range record.Files {
		names[i] = f.Name
	}
	out.Facts["changed"] = strings.Join(names[:min(len(names), maxNamed)], ", ")
	out.Facts["changedFiles"] = strconv.Itoa(len(names))
	out.Output = &artifact
	return nil
}

// changedFiles compares the folder with the commit's files.
func changedFiles(tree *gitsource.Tree, now Artifact) (changed []patchedFile, links []string) {
	state := func(s digest.Sums) *patchState { return &patchState{s.Size, s.SHA256, s.GitBlob} }
	seen := map[string]bool{}
	for _, f := range now.Files {
		seen[f.Name] = true
		before, was := tree.Files[f.Name]
		switch {
		case !was:
			changed = append(changed, patchedFile{Name: f.Name, After: state(f.Sums)})
		case before.Mode == "120000":
			links = append(links, f.Name)
		case before.Sums.GitBlob != f.Sums.GitBlob:
			changed = append(changed, patchedFile{f.Name, state(before.Sums), state(f.Sums)})
		}
	}
	for name, before := range tree.Files {
		if !seen[name] {
			changed = append(changed, patchedFile{Name: name, Before: state(before.Sums)})
		}
	}
	slices.SortFunc(changed, func(a, b patchedFile) int { return strings.Compare(a.Name, b.Name) })
	return changed, links
}

// readOnly takes the write permission from every file below a folder.
func readOnly(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.Chmod(path, info.Mode().Perm()&^0o222)
	})
}

// putEvidence stores a JSON document that anybody may see.
func putEvidence(ctx context.Context, objects Objects, name string, v any) (Evidence, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return Evidence{}, fmt.Errorf("%s: %w", name, err)
	}
	d, size, err := objects.Put(ctx, "application/json", true, bytes.NewReader(body))
	if err != nil {
		return Evidence{}, fmt.Errorf("store %s: %w", name, err)
	}
	return Evidence{Name: name, Digest: d, MediaType: "application/json", Size: size}, nil
}
