package stages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sort"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/stages/hub"
)

// listed is one file as the publisher lists it. At least one of gitBlob and
// sha256 is there: they are of the file's own bytes, never of a pointer's.
type listed struct {
	path    string
	size    int64
	gitBlob string // 40 hex digits
	sha256  godigest.Digest
	entry   hub.File // as the hub listed it
}

// listing is what a publisher declares about the pinned revision.
type listing struct {
	repository, revision string
	files                []listed
	licence              string            // empty when none is declared
	baseModels           []string          // owner/name, as declared
	scans                map[string]string // by path
	repoScan             string            // the repository's scan status, for when files have none
}

// publisherSource is where a revision comes from.
type publisherSource interface {
	listing(ctx context.Context) (listing, error)
	scans(ctx context.Context, files []listed) (map[string]string, error)
	// open gives the bytes from byte from on, or from 0 where it says so.
	open(ctx context.Context, f listed, from int64) (*hub.Body, error)
	uri() string
	anonymous() bool
}

// pinned is the revision that a source is held to.
type pinned struct{ repository, revision string }

// hubSource is a repository of the Hub.
type hubSource struct {
	pinned
	client *hub.Client
}

func (s hubSource) uri() string {
	return s.client.Endpoint() + "/" + s.repository + "/tree/" + s.revision
}

func (s hubSource) anonymous() bool { return s.client.Anonymous() }

func (s hubSource) listing(ctx context.Context) (listing, error) {
	info, err := s.client.Info(ctx, s.repository, s.revision)
	if err != nil {
		return listing{}, err
	}
	l := listing{repository: info.Repository, revision: info.Revision, licence: info.Licence, baseModels: info.BaseModels, repoScan: "absent"}
	if r := info.Scans; r != nil {
		switch {
		case len(r.Issues) > 0:
			l.repoScan = fmt.Sprintf("repository: issues in %d files", len(r.Issues))
		case r.Done:
			l.repoScan = "repository: done, no issues"
		default:
			l.repoScan = "queued"
		}
	}
	for _, f := range info.Files {
		e := listed{path: f.Path, size: f.Size, gitBlob: f.BlobID, entry: f}
		if f.LFS != nil {
			e.gitBlob, e.sha256 = "", sha256Digest(f.LFS.SHA256)
		}
		l.files = append(l.files, e)
	}
	return l, nil
}

func (s hubSource) scans(ctx context.Context, files []listed) (map[string]string, error) {
	paths := make([]string, len(files))
	for i, f := range files {
		paths[i] = f.path
	}
	return s.client.FileScans(ctx, s.repository, s.revision, paths)
}

func (s hubSource) open(ctx context.Context, f listed, from int64) (*hub.Body, error) {
	return s.client.Open(ctx, s.repository, s.revision, f.entry, from)
}

// folderSource is a copy of a revision on this machine, beside the publisher's
// listing of it: {"repository", "revision", "license", "base_models", "files":
// [{"path", "size", "blob_id", "sha256"}]}. blob_id is of the file's own bytes.
type folderSource struct {
	pinned
	path, list string
}

func (s folderSource) uri() string {
	return hub.DefaultEndpoint + "/" + s.repository + "/tree/" + s.revision
}
func (s folderSource) anonymous() bool { return true }

func (s folderSource) scans(context.Context, []listed) (map[string]string, error) {
	return map[string]string{}, nil
}

const maxListing = 32 << 20 // bytes of a publisher.json

var (
	hex40 = regexp.MustCompile(`^[0-9a-f]{40}$`)
	hex64 = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

func (s folderSource) listing(context.Context) (listing, error) {
	body, err := readBounded(s.list, maxListing)
	if err != nil {
		return listing{}, err
	}
	var p struct {
		Repository, Revision, License string
		BaseModels                    []string `json:"base_models"`
		Files                         []struct {
			Path   string
			Size   *int64
			BlobID string `json:"blob_id"`
			SHA256 string
		}
	}
	if err := json.Unmarshal(body, &p); err != nil {
		return listing{}, fmt.Errorf("%s: %w", s.list, err)
	}
	if p.Repository != s.repository || p.Revision != s.revision {
		return listing{}, fmt.Errorf("%s: it lists %s at %q, want %s at %s", s.list, p.Repository, p.Revision, s.repository, s.revision)
	}
	l := listing{repository: p.Repository, revision: p.Revision, licence: p.License, baseModels: p.BaseModels, repoScan: "absent"}
	seen := map[string]bool{}
	for _, f := range p.Files {
		if err := hub.CheckName(f.Path); err != nil {
			return listing{}, fmt.Errorf("%s: %w", s.list, err)
		}
		blobOK, shaOK := hex40.MatchString(f.BlobID), hex64.MatchString(f.SHA256)
		if f.Size == nil || *f.Size < 0 || f.BlobID != "" && !blobOK || f.SHA256 != "" && !shaOK || !blobOK && !shaOK || seen[f.Path] {
			return listing{}, fmt.Errorf("%s: %s: want it once, with its size and a git blob id or sha256 in lower-case hex", s.list, f.Path)
		}
		seen[f.Path] = true
		l.files = append(l.files, listed{path: f.Path, size: *f.Size, gitBlob: f.BlobID, sha256: sha256Digest(f.SHA256)})
	}
	sort.Slice(l.files, func(i, j int) bool { return l.files[i].path < l.files[j].path })
	return l, nil
}

// open opens below the folder only: a symbolic link that leaves it is refused.
func (s folderSource) open(_ context.Context, f listed, from int64) (*hub.Body, error) {
	root, err := os.OpenRoot(s.path)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	file, err := root.Open(filepath.FromSlash(f.path))
	if err != nil {
		return nil, err
	}
	st, err := file.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s: not a regular file", file.Name())
	}
	if err == nil && st.Size() != f.size {
		head, _ := io.ReadAll(io.LimitReader(file, int64(len(hub.PointerPrefix))))
		err = &hub.LengthError{What: f.path, Got: fmt.Sprint(st.Size()), Want: f.size, Pointer: hub.IsPointer(head)}
	}
	if err == nil {
		_, err = file.Seek(from, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &hub.Body{ReadCloser: file, From: from}, nil
}

// readBounded reads a small file and refuses a large one.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	body, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if int64(len(body)) > limit {
		return nil, fmt.Errorf("%s: longer than %d bytes; refused", path, limit)
	}
	return body, nil
}
