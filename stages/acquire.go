package stages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/hub"
)

// Acquire takes the files of one exact publisher revision, checks every one
// against the publisher's listing, and makes them a folder under a manifest.
//
// The folder is run.Dir/<stage>. Unfinished files lie in run.Dir/partial and are
// continued by a later run; files with a wrong hash go to run.Dir/quarantine
// under <name>.quarantined-<first 12 digits of their sha256> and nowhere else.
type Acquire struct {
	// Env reads the environment (HF_ENDPOINT, HF_TOKEN); nothing is read from it when nil.
	Env func(string) string

	free func(dir string) (uint64, error) // bytes; statfs when nil
}

// Uses implements [Stage].
func (Acquire) Uses() string { return "acquire" }

// Continues says that partial files of an earlier run are picked up.
func (Acquire) Continues() {}

// acquireWith is with: of the stage.
type acquireWith struct {
	From     string `json:"from"`     // hub or folder
	Endpoint string `json:"endpoint"` // of the hub; HF_ENDPOINT, else the public one, when empty
	Path     string `json:"path"`     // the folder
	Listing  string `json:"listing"`  // its publisher.json
}

// Run implements [Stage].
func (s Acquire) Run(ctx context.Context, run *Run) (*Outcome, error) {
	var with acquireWith
	if err := decodeWith(run, &with); err != nil {
		return nil, err
	}
	if err := hub.CheckPin(run.Publish.Repository, run.Publish.Revision); err != nil {
		return nil, err
	}
	src, err := s.source(run, with)
	if err != nil {
		return nil, err
	}
	list, err := src.listing(ctx)
	if unreachable := net.Error(nil); errors.As(err, &unreachable) && ctx.Err() == nil {
		return &Outcome{Verdict: schemas.Undecided, ExitStatus: 1, Failure: err.Error() + "; nothing was fetched; check HF_ENDPOINT and the network, and run it again"}, nil
	}
	if err != nil {
		return nil, err
	}
	taken, skipped, err := allowed(list.files, run.Publish.Allow)
	if err != nil {
		return nil, err
	}
	if list.scans, err = src.scans(ctx, taken); err != nil {
		return nil, err
	}
	out := &Outcome{
		Dependencies: []Dependency{{Name: "source/" + list.repository, GitOID: list.revision, URI: src.uri()}},
		Facts: map[string]string{
			"repository": list.repository, "revision": list.revision,
			"licence": orAbsent(list.licence), "scan": scanFact(list, taken), "skipped": strconv.Itoa(len(skipped)),
		},
		Internal: map[string]any{"parallel": parallelFiles, "anonymous": src.anonymous()},
	}
	if err := putListing(ctx, run, out, src.uri(), list, taken); err != nil {
		return out, err
	}
	report, err := s.take(ctx, run, src, taken)
	if err != nil {
		return out, err
	}
	report.Metric("files_skipped", "files", float64(len(skipped)))
	if err := report.Finish(); err != nil {
		return out, err
	}
	out.Reports = []kernels.Report{report}
	if report.Verdict != kernels.Passed {
		out.Verdict, out.Failure = schemas.Verdict(report.Verdict), failureOf(report)
		return out, nil
	}
	folder, err := s.folder(ctx, run, taken)
	if err != nil {
		return out, err
	}
	out.Output, out.Verdict = &folder, schemas.Passed
	return out, nil
}

// Resolve implements [Resolver]: nothing but the pinned revision goes in, and the declaration names it.
func (s Acquire) Resolve(context.Context, *Run) ([]Dependency, error) { return nil, nil }

func (s Acquire) source(run *Run, with acquireWith) (publisherSource, error) {
	pin := pinned{run.Publish.Repository, run.Publish.Revision}
	if with.From == "folder" {
		return folderSource{pinned: pin, path: below(run.Project, with.Path), list: below(run.Project, with.Listing)}, nil
	}
	var o hub.Options
	if s.Env != nil {
		o = hub.FromEnv(s.Env)
	}
	if with.Endpoint != "" {
		if o.Endpoint != with.Endpoint {
			o.Token = "" // the token was set for another endpoint
		}
		o.Endpoint = with.Endpoint
	}
	client, err := hub.New(o)
	if err != nil {
		return nil, err
	}
	return hubSource{pin, client}, nil
}

// allowed splits a listing by the pipeline's allow-list. A pattern that takes
// nothing is an error: what was meant is not there.
func allowed(files []listed, patterns []string) (taken []listed, skipped []string, err error) {
	if len(patterns) == 0 {
		return nil, nil, fmt.Errorf("publisher.allow: it is empty; name the files to take")
	}
	used := make([]bool, len(patterns))
	for _, f := range files {
		take := false
		for i, p := range patterns {
			ok, err := path.Match(p, f.path)
			if err != nil {
				return nil, nil, fmt.Errorf("publisher.allow[%d]: %q is no pattern: %w", i, p, err)
			}
			if ok {
				take, used[i] = true, true
			}
		}
		if take {
			taken = append(taken, f)
		} else {
			skipped = append(skipped, f.path)
		}
	}
	for i, ok := range used {
		if !ok {
			return nil, nil, fmt.Errorf("publisher.allow[%d]: %q matches none of the publisher's %d files; correct the pattern or drop it", i, patterns[i], len(files))
		}
	}
	return taken, skipped, nil
}

// folder reads the finished folder and wants exactly the files that were taken.
func (s Acquire) folder(ctx context.Context, run *Run, taken []listed) (Artifact, error) {
	a, err := FolderArtifact(ctx, run.Stage, filepath.Join(run.Dir, run.Stage))
	if err != nil {
		return a, err
	}
	want := map[string]listed{}
	for _, f := range taken {
		want[f.path] = f
	}
	for _, f := range a.Files {
		w, ok := want[f.Name]
		if !ok {
			return a, fmt.Errorf("%s: the revision has no such file or it is not allowed; move it away", f.Path)
		}
		if found := judgeFile(w, f.Sums, nil); len(found) > 0 {
			return a, fmt.Errorf("%s changed after it was checked: %s", f.Path, found[0])
		}
		delete(want, f.Name)
	}
	for name := range want {
		return a, fmt.Errorf("%s: gone after it was checked", filepath.Join(a.Path, name))
	}
	return a, nil
}

// scanFact says what the publisher's scanners say about the files taken, in
// counts, e.g. "3 safe, 19 queued". A file without a status makes nothing safe.
func scanFact(list listing, taken []listed) string {
	count := map[string]int{}
	for _, f := range taken {
		state, ok := list.scans[f.path]
		if !ok {
			state = "absent"
		}
		count[state]++
	}
	if count["absent"] == len(taken) {
		return list.repoScan
	}
	var parts []string
	for _, state := range append(append([]string{}, hub.ScanStates...), "absent") {
		if n := count[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
			delete(count, state)
		}
	}
	for _, state := range sortedKeys(count) { // a state that the interface did not have when this was written
		parts = append(parts, fmt.Sprintf("%d %q", count[state], state))
	}
	return strings.Join(parts, ", ")
}

// putListing keeps what the publisher declared as evidence.
func putListing(ctx context.Context, run *Run, out *Outcome, uri string, list listing, taken []listed) error {
	is := map[string]bool{}
	for _, f := range taken {
		is[f.path] = true
	}
	doc := schemas.Listing{Schema: schemas.ListingURI, URI: uri, Revision: list.revision, Licence: orAbsent(list.licence), BaseModels: list.baseModels}
	for _, f := range list.files {
		doc.Files = append(doc.Files, schemas.ListedFile{Path: f.path, Size: f.size, GitBlob: f.gitBlob, SHA256: f.sha256, Scan: orAbsent(list.scans[f.path]), Taken: is[f.path]})
	}
	body, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	digest, size, err := run.Objects.Put(ctx, "application/json", true, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("store the publisher's listing: %w", err)
	}
	out.Evidence = append(out.Evidence, Evidence{Name: "listing/publisher", Digest: digest, MediaType: "application/json", Size: size})
	return nil
}

func failureOf(r kernels.Report) string {
	if len(r.Findings) == 0 {
		return fmt.Sprintf("kernel %s is %s: %d of %d planted controls were missed", r.Kernel, r.Verdict, r.Controls.Missed, r.Controls.Planted)
	}
	s := r.Findings[0].String()
	if n := len(r.Findings) + r.FindingsOmitted - 1; n > 0 {
		s += fmt.Sprintf("; and %d more findings", n)
	}
	return s
}

func orAbsent(s string) string {
	if s == "" {
		return "absent"
	}
	return s
}

// below resolves a path of with: relative ones are below the project.
func below(project, name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(project, filepath.FromSlash(name))
}

// sha256Digest is a digest from its 64 hex digits; empty from none.
func sha256Digest(hex string) godigest.Digest {
	if hex == "" {
		return ""
	}
	return godigest.NewDigestFromEncoded(godigest.SHA256, hex)
}

// exists tells whether a path is taken by anything.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
