package stages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/hub/hubtest"
)

// folderRun is a run on a copy of the snapshot on disk.
func folderRun(t *testing.T, edit func(listing map[string]any, dir string)) *Run {
	t.Helper()
	run := newRun(t, "source", map[string]any{"from": "folder", "path": "snapshot", "listing": "publisher.json"})
	run.Publish = schemas.Publisher{Repository: "weighmaster/example", Revision: pinnedRevision, Allow: []string{"config.json", "model.safetensors"}}
	dir := filepath.Join(run.Project, "snapshot")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var files []any
	for _, f := range hubSnapshot().Files {
		if err := os.WriteFile(filepath.Join(dir, f.Path), f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
		files = append(files, map[string]any{"path": f.Path, "size": len(f.Data), "blob_id": hubtest.BlobID(f.Data), "sha256": godigest.FromBytes(f.Data).Encoded()})
	}
	listing := map[string]any{"repository": "weighmaster/example", "revision": pinnedRevision, "license": "cc0-1.0", "files": files}
	if edit != nil {
		edit(listing, dir)
	}
	body, err := json.Marshal(listing)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(run.Project, "publisher.json"), body, 0o644); err != nil {
		t.Fatal(err)
	}
	return run
}

func TestAcquireFromAFolder(t *testing.T) {
	out := mustAcquire(t, folderRun(t, nil))
	if len(out.Output.Files) != 2 || out.Facts["licence"] != "cc0-1.0" || out.Facts["scan"] != "absent" {
		t.Errorf("%+v %v", out.Output, out.Facts)
	}
	hub := mustAcquire(t, acquireRun(t, hubSnapshot()))
	if hub.Output.Files[0].Sums != out.Output.Files[0].Sums {
		t.Errorf("the same file by two ways: %v, %v", hub.Output.Files[0], out.Output.Files[0])
	}
}

func TestAFolderThatIsNotWhatItsListingSays(t *testing.T) {
	t.Run("changed bytes", func(t *testing.T) {
		run := folderRun(t, func(_ map[string]any, dir string) {
			wrong := bytes.Clone(hubWeights)
			wrong[0] ^= 1
			_ = os.WriteFile(filepath.Join(dir, "model.safetensors"), wrong, 0o644)
		})
		refusedFile(t, run, "sha256")
	})
	t.Run("an LFS pointer", func(t *testing.T) {
		run := folderRun(t, func(_ map[string]any, dir string) {
			_ = os.WriteFile(filepath.Join(dir, "model.safetensors"), hubtest.Pointer(hubWeights), 0o644)
		})
		refusedFile(t, run, "size", "this is an LFS pointer, not the file")
	})
	for name, c := range map[string]struct {
		edit func(map[string]any, string)
		want string
	}{
		"another revision": {func(l map[string]any, _ string) { l["revision"] = strings.Repeat("a", 40) }, "want weighmaster/example at"},
		"a climbing name":  {func(l map[string]any, _ string) { l["files"].([]any)[0].(map[string]any)["path"] = "../x" }, "never trusted as a path"},
		"no hash": {func(l map[string]any, _ string) {
			delete(l["files"].([]any)[0].(map[string]any), "blob_id")
			delete(l["files"].([]any)[0].(map[string]any), "sha256")
		}, "git blob id or sha256"},
		"no size": {func(l map[string]any, _ string) { delete(l["files"].([]any)[0].(map[string]any), "size") }, "with its size"},
		"a link that leaves the folder": {func(_ map[string]any, dir string) {
			_ = os.Remove(filepath.Join(dir, "config.json"))
			_ = os.Symlink("/etc/passwd", filepath.Join(dir, "config.json"))
		}, "escapes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Acquire{}.Run(t.Context(), folderRun(t, c.edit))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}

func FuzzPublisherFolderListing(f *testing.F) {
	f.Add([]byte(fmt.Sprintf(`{"repository":"a/b","revision":%q,"files":[{"path":"x","size":1,"blob_id":%q}]}`, pinnedRevision, pinnedRevision)))
	f.Add([]byte(`{"files":[{"path":"../x","size":-1}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		path := filepath.Join(t.TempDir(), "l.json")
		if err := os.WriteFile(path, body, 0o644); err != nil {
			t.Fatal(err)
		}
		l, err := folderSource{pinned: pinned{"a/b", pinnedRevision}, list: path}.listing(t.Context())
		for _, file := range l.files {
			if err == nil && (file.size < 0 || !fs.ValidPath(file.path) || file.gitBlob == "" && file.sha256 == "") {
				t.Errorf("accepted %+v", file)
			}
		}
	})
}
