package stages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/hub/hubtest"
)

// mapObjects is an evidence store in memory.
type mapObjects struct {
	mu   sync.Mutex
	body map[godigest.Digest][]byte
}

func (m *mapObjects) Put(_ context.Context, _ string, _ bool, r io.Reader) (godigest.Digest, int64, error) {
	body, err := io.ReadAll(r)
	if err != nil {
		return "", 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.body == nil {
		m.body = map[godigest.Digest][]byte{}
	}
	d := godigest.FromBytes(body)
	m.body[d] = body
	return d, int64(len(body)), nil
}

func (m *mapObjects) Get(_ context.Context, d godigest.Digest) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	body, ok := m.body[d]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return body, nil
}

// newRun is a run with an empty folder and no claims.
func newRun(t *testing.T, stage string, with any) *Run {
	t.Helper()
	body, err := json.Marshal(with)
	if err != nil {
		t.Fatal(err)
	}
	project := t.TempDir()
	dir := filepath.Join(project, "work", stage)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return &Run{Stage: stage, With: body, Inputs: map[string]Artifact{}, Dir: dir, Project: project, Objects: &mapObjects{}, Now: time.Now}
}

const pinnedRevision = "8fcfd09da7f927cad15ff75e76ba8ccf36175e82"

var hubWeights = bytes.Repeat([]byte("weights!"), 40_000) // 320,000 bytes

func hubSnapshot() hubtest.Snapshot {
	return hubtest.Snapshot{
		Repository: "weighmaster/example", Revision: pinnedRevision, Licence: "cc0-1.0",
		Files: []hubtest.File{
			{Path: "config.json", Data: []byte(`{"hidden_size":8}`)},
			{Path: "empty.txt"},
			{Path: "model.safetensors", Data: hubWeights, LFS: true},
			{Path: "pickle.bin", Data: []byte("not wanted"), LFS: true},
		},
	}
}

// acquireRun prepares an acquisition from a loopback hub with faults.
func acquireRun(t *testing.T, s hubtest.Snapshot, faults ...hubtest.Fault) *Run {
	t.Helper()
	server, err := hubtest.Serve(hubtest.Handler(s, faults...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	run := newRun(t, "source", map[string]any{"from": "hub", "endpoint": server.URL})
	run.Publish = schemas.Publisher{Repository: s.Repository, Revision: s.Revision, Allow: []string{"*.json", "*.safetensors", "empty.txt"}}
	return run
}

func mustAcquire(t *testing.T, run *Run) *Outcome {
	t.Helper()
	out, err := Acquire{}.Run(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	if out.Verdict != schemas.Passed {
		t.Fatalf("%s: %s", out.Verdict, out.Failure)
	}
	return out
}

func metric(t *testing.T, r kernels.Report, name string) float64 {
	t.Helper()
	for _, m := range r.Metrics {
		if m.Name == name {
			return m.Value
		}
	}
	t.Fatalf("no metric %s in %v", name, r.Metrics)
	return 0
}

func TestAcquireTakesTheAllowedFilesOfTheRevision(t *testing.T) {
	s := hubSnapshot()
	s.Scans = map[string]string{"config.json": "safe", "model.safetensors": "queued"}
	run := acquireRun(t, s)
	out := mustAcquire(t, run)
	if out.Output == nil || !out.Output.Multi || len(out.Output.Files) != 3 || out.Output.Name != "source" {
		t.Fatalf("output: %+v", out.Output)
	}
	for _, f := range s.Files[:3] {
		path := filepath.Join(run.Dir, "source", f.Path)
		body, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(body, f.Data) {
			t.Errorf("%s: %d bytes, %v", f.Path, len(body), err)
		}
		if st, err := os.Stat(path); err == nil && st.Mode().Perm() != 0o444 {
			t.Errorf("%s: mode %v, want read-only", f.Path, st.Mode())
		}
	}
	if exists(filepath.Join(run.Dir, "source", "pickle.bin")) {
		t.Error("a file that is not allowed was taken")
	}
	for fact, want := range map[string]string{"licence": "cc0-1.0", "scan": "1 safe, 1 queued, 1 absent", "revision": pinnedRevision, "repository": s.Repository, "skipped": "1"} {
		if out.Facts[fact] != want {
			t.Errorf("fact %s: got %q, want %q", fact, out.Facts[fact], want)
		}
	}
	if d := out.Dependencies[0]; d.Name != "source/"+s.Repository || d.GitOID != pinnedRevision || !strings.HasSuffix(d.URI, "/"+s.Repository+"/tree/"+pinnedRevision) {
		t.Errorf("dependency %+v", d)
	}
	r := out.Reports[0]
	if r.Controls.Missed != 0 || r.Controls.Planted < 10 {
		t.Errorf("controls: %+v", r.Controls)
	}
	if err := AcquireKernel().CheckFaults(r.Controls); err != nil {
		t.Error(err)
	}
	if metric(t, r, "files") != 3 || metric(t, r, "files_skipped") != 1 {
		t.Errorf("metrics %v", r.Metrics)
	}
	for _, name := range []string{"quarantine"} {
		if exists(filepath.Join(run.Dir, name)) {
			t.Errorf("%s was made although nothing was wrong", name)
		}
	}
}

// refusedFile runs an acquisition that must end in a finding.
func refusedFile(t *testing.T, run *Run, check string, parts ...string) *Outcome {
	t.Helper()
	out, err := Acquire{}.Run(t.Context(), run)
	if err != nil {
		t.Fatalf("got an error, want a failed check: %v", err)
	}
	if out.Verdict != schemas.Failed || out.Output != nil || len(out.Reports) != 1 {
		t.Fatalf("verdict %s, output %v", out.Verdict, out.Output)
	}
	found := out.Reports[0].Findings
	if len(found) == 0 || found[0].Check != check {
		t.Fatalf("findings %v, want check %s first", found, check)
	}
	for _, p := range parts {
		if !strings.Contains(found[0].String(), p) {
			t.Errorf("got %s, want %q in it", found[0], p)
		}
	}
	if exists(filepath.Join(run.Dir, "source", found[0].Where)) {
		t.Error("a refused file was promoted")
	}
	return out
}

func quarantined(t *testing.T, run *Run) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(run.Dir, "quarantine"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestRightSizeWrongBytesIsQuarantinedUnderItsOwnHashAtEachTry(t *testing.T) {
	run := acquireRun(t, hubSnapshot(), hubtest.Bytes("model.safetensors", hubWeights, func(data []byte, request int) []byte {
		data[request] ^= 0xff // another hash at each try
		return data
	}))
	for try := 1; try <= 2; try++ {
		wrong := bytes.Clone(hubWeights)
		wrong[try] ^= 0xff
		refusedFile(t, run, "sha256", "model.safetensors", godigest.FromBytes(wrong).String(), godigest.FromBytes(hubWeights).String())
		if names := quarantined(t, run); len(names) != try {
			t.Errorf("quarantine after try %d: %v", try, names)
		}
		want := filepath.Join(run.Dir, "quarantine", "model.safetensors.quarantined-"+godigest.FromBytes(wrong).Encoded()[:12])
		if !exists(want) {
			t.Errorf("%s is missing", want)
		}
	}
}

func TestAWrongSmallFileIsRefusedByItsGitBlobID(t *testing.T) {
	data := []byte(`{"hidden_size":8}`)
	run := acquireRun(t, hubSnapshot(), hubtest.Bytes("config.json", data, func(d []byte, _ int) []byte { d[3] ^= 1; return d }))
	refusedFile(t, run, "git-blob", "config.json", hubtest.BlobID(data))
}

func TestAFileOverwrittenBehindItsGoodNameIsFetchedAgain(t *testing.T) {
	run := acquireRun(t, hubSnapshot())
	mustAcquire(t, run)
	path := filepath.Join(run.Dir, "source", "model.safetensors")
	outside := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.WriteFile(outside, bytes.Repeat([]byte{1}, len(hubWeights)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(path), os.Symlink(outside, path)); err != nil {
		t.Fatal(err)
	}
	mustAcquire(t, run)
	if st, err := os.Lstat(path); err != nil || !st.Mode().IsRegular() {
		t.Errorf("the name still leads elsewhere: %v %v", st, err)
	}
	if body, _ := os.ReadFile(path); !bytes.Equal(body, hubWeights) {
		t.Error("the good bytes are not back")
	}
}

func TestTheHubServesAnotherFileThanThePointerSays(t *testing.T) {
	other := strings.Repeat("a", 64)
	run := acquireRun(t, hubSnapshot(), hubtest.Sibling("model.safetensors", func(e map[string]any) { e["lfs"].(map[string]any)["sha256"] = other }))
	_, err := Acquire{}.Run(t.Context(), run)
	if err == nil || !strings.Contains(err.Error(), other) || !strings.Contains(err.Error(), godigest.FromBytes(hubWeights).Encoded()) {
		t.Errorf("got %v, want a refusal with both digests", err)
	}
}

func TestTruncatedOversizedAndPointerBodiesAreRefused(t *testing.T) {
	body := func(change func([]byte) []byte) hubtest.Fault {
		return hubtest.Bytes("model.safetensors", hubWeights, func(d []byte, _ int) []byte { return change(d) })
	}
	for name, c := range map[string]struct {
		fault hubtest.Fault
		want  string
	}{
		"truncated":                  {body(func(d []byte) []byte { return d[:1000] }), "got 1000 bytes, want 320000 bytes"},
		"oversized":                  {body(func(d []byte) []byte { return append(d, 0) }), "got 320001 bytes, want 320000 bytes"},
		"an LFS pointer":             {body(hubtest.Pointer), "this is an LFS pointer, not the file"},
		"expected size zero":         {hubtest.Sibling("model.safetensors", func(e map[string]any) { e["size"] = 0; e["lfs"].(map[string]any)["size"] = 0 }), "got 320000 bytes, want 0 bytes"},
		"oversized, length not told": {chunked("model.safetensors", append(bytes.Clone(hubWeights), 7)), "got more than 320000 bytes, want 320000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			refusedFile(t, acquireRun(t, hubSnapshot(), c.fault), "size", "model.safetensors", c.want)
		})
	}
}

// chunked sends a body without telling its length.
func chunked(path string, body []byte) hubtest.Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/"+path) {
				next.ServeHTTP(w, r)
				return
			}
			w.(http.Flusher).Flush()
			_, _ = w.Write(body)
		})
	}
}

func TestAPointerThatThePublisherItselfCommittedIsRefused(t *testing.T) {
	s := hubSnapshot()
	s.Files[2] = hubtest.File{Path: "model.safetensors", Data: hubtest.Pointer(hubWeights)}
	refusedFile(t, acquireRun(t, s), "pointer", "this is an LFS pointer, not the file")
}

func TestShortBodiesWithoutALengthAreAnErrorWithGotAndWant(t *testing.T) {
	run := acquireRun(t, hubSnapshot(), chunked("model.safetensors", hubWeights[:5000]))
	_, err := Acquire{}.Run(t.Context(), run)
	if err == nil || !strings.Contains(err.Error(), "got 5000, want 320000") {
		t.Errorf("got %v", err)
	}
}

// broken leaves a partial file of 100,000 bytes behind and returns the run.
func broken(t *testing.T, faults ...hubtest.Fault) (run *Run, ranges *[]string) {
	t.Helper()
	var mu sync.Mutex
	ranges = &[]string{}
	run = acquireRun(t, hubSnapshot(), append([]hubtest.Fault{hubtest.Watch(func(r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/model.safetensors") {
			mu.Lock()
			defer mu.Unlock()
			*ranges = append(*ranges, r.Header.Get("Range"))
		}
	})}, faults...)...)
	partial := filepath.Join(run.Dir, "partial", "model.safetensors."+godigest.FromBytes(hubWeights).Encoded()[:12]+".partial")
	if err := errors.Join(os.MkdirAll(filepath.Dir(partial), 0o755), os.WriteFile(partial, hubWeights[:100_000], 0o644)); err != nil {
		t.Fatal(err)
	}
	return run, ranges
}

func TestAPartialFileIsContinuedWhereTheServerHonoursTheRange(t *testing.T) {
	run, ranges := broken(t)
	out := mustAcquire(t, run)
	if len(*ranges) != 1 || (*ranges)[0] != "bytes=100000-" {
		t.Errorf("asked for %q", *ranges)
	}
	if got := metric(t, out.Reports[0], "bytes_resumed"); got != 100_000 {
		t.Errorf("resumed %v bytes, want 100000", got)
	}
}

func TestARangeThatIsNotHonouredStartsOverAndNeverAppends(t *testing.T) {
	for name, fault := range map[string]hubtest.Fault{
		"a range request answered with 200": hubtest.IgnoreRange(),
		"another Content-Range start":       hubtest.ContentRange(func(h string) string { return strings.Replace(h, "bytes 100000-", "bytes 99999-", 1) }),
		"another Content-Range total":       hubtest.ContentRange(func(h string) string { return strings.Replace(h, "/320000", "/320001", 1) }),
		"a star for the total":              hubtest.ContentRange(func(h string) string { return strings.Replace(h, "/320000", "/*", 1) }),
	} {
		t.Run(name, func(t *testing.T) {
			run, _ := broken(t, fault)
			out := mustAcquire(t, run)
			if got := metric(t, out.Reports[0], "resumes_refused"); got != 1 {
				t.Errorf("refused %v resumes, want 1", got)
			}
			if got := metric(t, out.Reports[0], "bytes_resumed"); got != 0 {
				t.Errorf("resumed %v bytes, want none", got)
			}
		})
	}
}

func TestAPartialFileOfOtherBytesIsFoundByTheHash(t *testing.T) {
	run, _ := broken(t)
	partial := filepath.Join(run.Dir, "partial", "model.safetensors."+godigest.FromBytes(hubWeights).Encoded()[:12]+".partial")
	if err := os.WriteFile(partial, bytes.Repeat([]byte{9}, 100_000), 0o644); err != nil {
		t.Fatal(err)
	}
	refusedFile(t, run, "sha256")
	mustAcquire(t, run) // the spoiled bytes are in quarantine; the next run starts over
}

func TestBrokenConnectionsAreContinuedInOneRun(t *testing.T) {
	run := acquireRun(t, hubSnapshot(), hubtest.Cut("config.json", 3, 4))
	out := mustAcquire(t, run)
	if got := metric(t, out.Reports[0], "bytes_resumed"); got != 4+8+12 {
		t.Errorf("resumed %v bytes, want 24: three cuts of four bytes", got)
	}
}

func TestFreeSpaceIsCheckedBeforeAnythingIsFetched(t *testing.T) {
	var asked atomic.Int64 // requests come in parallel
	run := acquireRun(t, hubSnapshot(), hubtest.Watch(func(r *http.Request) {
		if strings.Contains(r.URL.Path, "/resolve/") {
			asked.Add(1)
		}
	}))
	_, err := Acquire{free: func(string) (uint64, error) { return 320_000, nil }}.Run(t.Context(), run)
	if err == nil || !strings.Contains(err.Error(), "320000 bytes are free, 336017 are needed") || asked.Load() != 0 {
		t.Errorf("got %v after %d requests for files", err, asked.Load())
	}
	if out, err := (Acquire{free: func(string) (uint64, error) { return 336_017, nil }}).Run(t.Context(), run); err != nil || out.Verdict != schemas.Passed {
		t.Errorf("with just enough space: %v", err)
	}
}

func TestTheRevisionIsRefusedBeforeAnyRequest(t *testing.T) {
	for _, rev := range []string{"main", "v1", strings.ToUpper(pinnedRevision), pinnedRevision[:12]} {
		var asked int
		run := acquireRun(t, hubSnapshot(), hubtest.Watch(func(*http.Request) { asked++ }))
		run.Publish.Revision = rev
		if _, err := (Acquire{}).Run(t.Context(), run); err == nil || !strings.Contains(err.Error(), "40 lower-case hex digits") || asked != 0 {
			t.Errorf("%s: %v after %d requests", rev, err, asked)
		}
	}
}

func TestAnAllowedPatternThatMatchesNothingIsRefused(t *testing.T) {
	run := acquireRun(t, hubSnapshot())
	run.Publish.Allow = append(run.Publish.Allow, "*.gguf")
	if _, err := (Acquire{}).Run(t.Context(), run); err == nil || !strings.Contains(err.Error(), `"*.gguf" matches none`) {
		t.Errorf("got %v", err)
	}
	run.Publish.Allow = nil
	if _, err := (Acquire{}).Run(t.Context(), run); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("got %v", err)
	}
}

func TestAStrayFileInTheFolderIsRefused(t *testing.T) {
	run := acquireRun(t, hubSnapshot())
	mustAcquire(t, run)
	if err := os.WriteFile(filepath.Join(run.Dir, "source", "model-extra.safetensors"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := (Acquire{}).Run(t.Context(), run); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v", err)
	}
}

func TestACancelledAcquisitionCanBeContinued(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	run := acquireRun(t, hubSnapshot(), hubtest.Watch(func(r *http.Request) {
		if strings.Contains(r.URL.Path, "/resolve/") {
			cancel()
		}
	}))
	if _, err := (Acquire{}).Run(ctx, run); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	mustAcquire(t, run) // under a context of its own
}

func TestAcquireSelfCheck(t *testing.T) {
	r, err := AcquireKernel().SelfCheck(t.Context())
	if err != nil || r.Verdict != kernels.Passed {
		t.Fatalf("%s %v %v", r.Verdict, r.Findings, err)
	}
	if err := AcquireKernel().CheckFaults(r.Controls); err != nil {
		t.Error(err)
	}
}
