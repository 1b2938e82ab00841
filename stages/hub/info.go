package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strings"
)

// Info is what the Hub declares about one revision of a model repository.
type Info struct {
	Repository string
	Revision   string   // 40 hex digits, as the answer repeats them
	Files      []File   // sorted by path
	Licence    string   // lower case as declared; empty when none is
	BaseModels []string // owner/name of the models that the card says this one is made from, sorted
	Gated      bool
	Private    bool
	Scans      *RepoScans // nil when the answer has none
}

// File is one file of a listing.
type File struct {
	Path   string
	Size   int64  // bytes
	BlobID string // git blob id, 40 hex digits; of the pointer for an LFS file
	LFS    *LFS   // nil for a file that git itself holds
}

// LFS is what the Git LFS pointer of a file says.
type LFS struct {
	SHA256      string // 64 hex digits, of the file's bytes
	PointerSize int64  // bytes; 0 when not told
}

// RepoScans is the Hub's scan status of a repository (securityRepoStatus).
type RepoScans struct {
	Done   bool
	Issues map[string]string // level by path
}

// Info asks for the listing of exactly this revision. It refuses an answer that
// does not repeat the revision, that names another repository, or in which a
// file lacks its size or the hash it is to be checked by.
func (c *Client) Info(ctx context.Context, repo, rev string) (*Info, error) {
	if err := CheckPin(repo, rev); err != nil {
		return nil, err
	}
	what := "listing of " + repo + " at " + rev
	owner, name, _ := strings.Cut(repo, "/")
	a, err := c.do(ctx, request{
		what: what, method: http.MethodGet, path: []string{"api", "models", owner, name, "revision", rev},
		query: url.Values{"blobs": {"true"}, "securityStatus": {"true"}},
	})
	if err != nil {
		return nil, err
	}
	body, err := c.json(what, a)
	if err != nil {
		return nil, err
	}
	info, err := ParseInfo(body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if err := info.Answers(repo, rev); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return info, nil
}

// Answers refuses an answer for another repository or revision than was asked about.
func (i *Info) Answers(repo, rev string) error {
	if i.Revision != rev {
		return fmt.Errorf("the answer is for revision %q, want %s; refused, nothing was taken", i.Revision, rev)
	}
	if i.Repository != repo {
		return fmt.Errorf("the answer is for repository %q, want %s; if it was renamed, pin the new name", i.Repository, repo)
	}
	return nil
}

// json reads a 200 answer, bounded, and closes it.
func (c *Client) json(what string, a *answer) ([]byte, error) {
	defer drain(a.Body)
	if a.StatusCode != http.StatusOK {
		return nil, &StatusError{What: what, Status: a.StatusCode, Message: c.message(a.Response)}
	}
	body, err := io.ReadAll(io.LimitReader(a.Body, maxListingBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: reading the answer: %w", what, err)
	}
	if len(body) > maxListingBytes {
		return nil, fmt.Errorf("%s: the answer is longer than %d bytes; refused", what, maxListingBytes)
	}
	return body, nil
}

// ParseInfo reads a model info answer (with blobs=true). Keys are matched
// exactly and none that is read may come twice.
func ParseInfo(body []byte) (*Info, error) {
	top, err := object(body)
	if err != nil {
		return nil, err
	}
	info := &Info{}
	if err := top.need("sha", &info.Revision); err != nil {
		return nil, err
	}
	if !revision.MatchString(info.Revision) {
		return nil, fmt.Errorf("sha: got %q, want 40 lower-case hex digits", info.Revision)
	}
	if err := top.need("id", &info.Repository); err != nil {
		return nil, err
	}
	if err := top.may("private", &info.Private); err != nil {
		return nil, err
	}
	var gated any // false, "auto" or "manual"
	if err := top.may("gated", &gated); err != nil {
		return nil, err
	}
	info.Gated = gated != nil && gated != false
	if info.Licence, err = licence(top); err != nil {
		return nil, err
	}
	if info.BaseModels, err = baseModels(top); err != nil {
		return nil, err
	}
	if info.Scans, err = repoScans(top); err != nil {
		return nil, err
	}
	info.Files, err = siblings(top)
	if err != nil {
		return nil, err
	}
	return info, nil
}

func siblings(top fields) ([]File, error) {
	var raw []json.RawMessage
	if err := top.need("siblings", &raw); err != nil {
		return nil, err
	}
	if len(raw) == 0 || len(raw) > maxFiles {
		return nil, fmt.Errorf("siblings: got %d files, want 1 to %d", len(raw), maxFiles)
	}
	files := make([]File, 0, len(raw))
	folded := map[string]string{}
	for i, r := range raw {
		f, err := sibling(r)
		if err != nil {
			return nil, fmt.Errorf("siblings[%d]: %w", i, err)
		}
		key := strings.ToLower(f.Path)
		if other, dup := folded[key]; dup {
			return nil, fmt.Errorf("siblings[%d]: %q and %q are one file where case does not count; refused", i, other, f.Path)
		}
		folded[key] = f.Path
		files = append(files, f)
	}
	sort.Slice(files, func(i, j int) bool { return files[i].Path < files[j].Path })
	return files, nil
}

func sibling(raw json.RawMessage) (File, error) {
	o, err := object(raw)
	if err != nil {
		return File{}, err
	}
	var f File
	if err := o.need("rfilename", &f.Path); err != nil {
		return File{}, err
	}
	if err := CheckName(f.Path); err != nil {
		return File{}, err
	}
	if err := o.need("size", &f.Size); err != nil {
		return File{}, fmt.Errorf("%s: %w; without a size nothing can be checked", f.Path, err)
	}
	if f.Size < 0 {
		return File{}, fmt.Errorf("%s: size: got %d, want 0 or more", f.Path, f.Size)
	}
	if err := o.need("blobId", &f.BlobID); err != nil {
		return File{}, fmt.Errorf("%s: %w", f.Path, err)
	}
	if !revision.MatchString(f.BlobID) {
		return File{}, fmt.Errorf("%s: blobId: got %q, want 40 lower-case hex digits", f.Path, f.BlobID)
	}
	if r, ok := o["lfs"]; ok && string(r) != "null" {
		if f.LFS, err = lfs(r, f.Size); err != nil {
			return File{}, fmt.Errorf("%s: lfs: %w", f.Path, err)
		}
	}
	return f, nil
}

func lfs(raw json.RawMessage, size int64) (*LFS, error) {
	o, err := object(raw)
	if err != nil {
		return nil, err
	}
	l := &LFS{}
	var told int64
	if err := o.need("sha256", &l.SHA256); err != nil {
		return nil, err
	}
	if !sha256Hex.MatchString(l.SHA256) {
		return nil, fmt.Errorf("sha256: got %q, want 64 lower-case hex digits", l.SHA256)
	}
	if err := o.need("size", &told); err != nil {
		return nil, err
	}
	if told != size {
		return nil, fmt.Errorf("size: the pointer says %d bytes, the listing %d; the hub contradicts itself", told, size)
	}
	return l, o.may("pointerSize", &l.PointerSize)
}

// licence reads cardData.license, and the license: tag where the card has none.
func licence(top fields) (string, error) {
	if raw, ok := top["cardData"]; ok && string(raw) != "null" {
		card, err := object(raw)
		if err != nil {
			return "", fmt.Errorf("cardData: %w", err)
		}
		var one any // a string, or a list of strings
		if err := card.may("license", &one); err != nil {
			return "", err
		}
		switch v := one.(type) {
		case string:
			return strings.ToLower(v), nil
		case []any:
			var all []string
			for _, e := range v {
				all = append(all, strings.ToLower(fmt.Sprint(e)))
			}
			return strings.Join(all, ", "), nil
		}
	}
	var tags []string
	if err := top.may("tags", &tags); err != nil {
		return "", err
	}
	for _, t := range tags {
		if l, ok := strings.CutPrefix(t, "license:"); ok {
			return strings.ToLower(l), nil
		}
	}
	return "", nil
}

// baseModels reads cardData.base_model: a name, or a list of names.
func baseModels(top fields) ([]string, error) {
	raw, ok := top["cardData"]
	if !ok || string(raw) == "null" {
		return nil, nil
	}
	card, err := object(raw)
	if err != nil {
		return nil, fmt.Errorf("cardData: %w", err)
	}
	raw, ok = card["base_model"]
	if !ok || string(raw) == "null" {
		return nil, nil
	}
	var names []string
	var one string
	if json.Unmarshal(raw, &one) == nil {
		names = []string{one}
	} else if err := card.may("base_model", &names); err != nil {
		return nil, fmt.Errorf("cardData: %w", err)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
