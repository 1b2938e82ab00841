package hub_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weighmaster/weighmaster/stages/hub"
	"github.com/weighmaster/weighmaster/stages/hub/hubtest"
)

const rev = "8fcfd09da7f927cad15ff75e76ba8ccf36175e82"

var weights = []byte(strings.Repeat("weights!", 4096))

func snapshot() hubtest.Snapshot {
	return hubtest.Snapshot{
		Repository: "weighmaster/example", Revision: rev, Licence: "CC0-1.0",
		Files: []hubtest.File{
			{Path: "config.json", Data: []byte(`{"a":1}`)},
			{Path: "sub/empty.txt"},
			{Path: "model.safetensors", Data: weights, LFS: true},
		},
	}
}

func serve(t *testing.T, s hubtest.Snapshot, faults ...hubtest.Fault) *hubtest.Server {
	t.Helper()
	server, err := hubtest.Serve(hubtest.Handler(s, faults...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return server
}

func client(t *testing.T, o hub.Options) *hub.Client {
	t.Helper()
	o.Pause = time.Millisecond
	c, err := hub.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted, want a refusal that says %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("refused for another reason:\n got %v\nwant %q in it", err, p)
		}
	}
}

func TestInfoOfACleanHub(t *testing.T) {
	s := snapshot()
	s.Scans = map[string]string{"model.safetensors": "queued", "config.json": "safe"}
	c := client(t, hub.Options{Endpoint: serve(t, s).URL})
	info, err := c.Info(t.Context(), s.Repository, rev)
	if err != nil {
		t.Fatal(err)
	}
	if info.Revision != rev || info.Licence != "cc0-1.0" || len(info.Files) != 3 {
		t.Fatalf("got %+v", info)
	}
	f := info.Files[1]
	if f.Path != "model.safetensors" || f.LFS == nil || f.Size != int64(len(weights)) || f.BlobID != hubtest.BlobID(hubtest.Pointer(weights)) {
		t.Fatalf("got %+v", f)
	}
	if info.Scans == nil || info.Scans.Done {
		t.Errorf("scans: got %+v, want unfinished: one file is queued", info.Scans)
	}
	scans, err := c.FileScans(t.Context(), s.Repository, rev, []string{"config.json", "model.safetensors", "sub/empty.txt"})
	if err != nil {
		t.Fatal(err)
	}
	if len(scans) != 2 || scans["config.json"] != "safe" || scans["model.safetensors"] != "queued" {
		t.Errorf("got %v, want one safe, one queued, one absent", scans)
	}
}

func TestListingsThatAreRefused(t *testing.T) {
	file := func(edit func(e map[string]any)) hubtest.Fault { return hubtest.Sibling("model.safetensors", edit) }
	for name, c := range map[string]struct {
		fault hubtest.Fault
		want  []string
	}{
		"metadata that answers for another revision": {hubtest.Listing(func(i map[string]any) { i["sha"] = strings.Repeat("a", 40) }), []string{`the answer is for revision "aaaa`}},
		"metadata without a revision":                {hubtest.Listing(func(i map[string]any) { delete(i, "sha") }), []string{"sha is missing"}},
		"metadata of another repository":             {hubtest.Listing(func(i map[string]any) { i["id"] = "evil/other" }), []string{`for repository "evil/other"`}},
		"a differently cased key":                    {hubtest.Listing(func(i map[string]any) { i["SHA"] = i["sha"]; delete(i, "sha") }), []string{"sha is missing"}},
		"a duplicate key":                            {hubtest.Raw(`{"sha":"` + rev + `","sha":"` + rev + `"}`), []string{`key "sha" comes twice`}},
		"bytes after the answer":                     {hubtest.Raw(`{"sha":"` + rev + `"} {}`), []string{"goes on after its end"}},
		"not JSON":                                   {hubtest.Raw(`<html>`), []string{"want a JSON object"}},
		"an answer without an end":                   {hubtest.Raw(`{"sha":"` + strings.Repeat("x", 33<<20)), []string{"longer than"}},
		"a file without a size":                      {file(func(e map[string]any) { delete(e, "size") }), []string{"model.safetensors", "size is missing"}},
		"a negative size":                            {file(func(e map[string]any) { e["size"] = -1 }), []string{"size: got -1"}},
		"a file without a blob id":                   {file(func(e map[string]any) { delete(e, "blobId") }), []string{"blobId is missing"}},
		"a short LFS hash":                           {file(func(e map[string]any) { e["lfs"].(map[string]any)["sha256"] = "abc" }), []string{`sha256: got "abc"`}},
		"an LFS size that contradicts the listing":   {file(func(e map[string]any) { e["lfs"].(map[string]any)["size"] = 1 }), []string{"contradicts itself"}},
		"no files":                                   {hubtest.Listing(func(i map[string]any) { i["siblings"] = []any{} }), []string{"got 0 files"}},
		"a name that climbs":                         {file(func(e map[string]any) { e["rfilename"] = "../../etc/passwd" }), []string{"never trusted as a path"}},
		"two names that differ only in case":         {file(func(e map[string]any) { e["rfilename"] = "CONFIG.json" }), []string{"case does not count"}},
	} {
		t.Run(name, func(t *testing.T) {
			cl := client(t, hub.Options{Endpoint: serve(t, snapshot(), c.fault).URL})
			_, err := cl.Info(t.Context(), "weighmaster/example", rev)
			wantError(t, err, c.want...)
		})
	}
}

func TestARevisionThatIsNotACommitIsRefusedBeforeAnyRequest(t *testing.T) {
	var asked int
	server := serve(t, snapshot(), hubtest.Watch(func(*http.Request) { asked++ }))
	c := client(t, hub.Options{Endpoint: server.URL})
	for _, r := range []string{"main", "v1.0", "", rev[:39], strings.ToUpper(rev), rev + "0", "refs/pr/1"} {
		_, err := c.Info(t.Context(), "weighmaster/example", r)
		wantError(t, err, "40 lower-case hex digits")
		_, err = c.Open(t.Context(), "weighmaster/example", r, hub.File{Path: "config.json"}, 0)
		wantError(t, err, "40 lower-case hex digits")
	}
	for _, r := range []string{"example", "a/b/c", "../x", "a/..", "a b/c", "https://x/y"} {
		_, err := c.Info(t.Context(), r, rev)
		wantError(t, err, "want owner/name")
	}
	if asked != 0 {
		t.Errorf("%d requests were made, want none", asked)
	}
}

func TestNamesThatAreRefused(t *testing.T) {
	for _, bad := range []string{"", ".", "..", "/abs", "a/../b", "a//b", "a/", `a\b`, "a\x00b", "a\nb", "C:/x", "nul", "a/CON.txt", "x.partial", "x.quarantined-0123", ".git/config", "a.", "a ", "\xff", strings.Repeat("a", 1025)} {
		if err := hub.CheckName(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	for _, good := range []string{"a", ".gitattributes", "onnx/model.onnx", "model-00001-of-00002.safetensors", "模型.json", "console.txt"} {
		if err := hub.CheckName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}

func TestEndpointsThatAreRefused(t *testing.T) {
	for _, bad := range []string{"http://example.org", "ftp://localhost", "https://user:secret@example.org", "https://example.org?x=1", "example.org", "http://127.0.0.1.example.org"} {
		_, err := hub.New(hub.Options{Endpoint: bad})
		wantError(t, err, "hub endpoint")
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error repeats a credential: %v", err)
		}
	}
	if _, err := hub.New(hub.Options{Token: "hf_a\nb"}); err == nil {
		t.Error("a token with a line break was accepted")
	}
}

const token = "hf_theSecretToken"

func TestATokenNeverFollowsARedirectToAnotherHost(t *testing.T) {
	var mu sync.Mutex
	var atHub, atOther []string
	other := serve(t, snapshot(), hubtest.Watch(func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		atOther = append(atOther, r.Header.Get("Authorization"))
	}), func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(weights) })
	})
	first := serve(t, snapshot(), hubtest.Watch(func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		atHub = append(atHub, r.Header.Get("Authorization"))
	}), hubtest.Redirect(other.URL+"/file?X-Signature=signed"))
	c := client(t, hub.Options{Endpoint: first.URL, Token: token})
	b, err := c.Open(t.Context(), "weighmaster/example", rev, hub.File{Path: "model.safetensors", Size: int64(len(weights))}, 0)
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	if len(atHub) != 1 || atHub[0] != "Bearer "+token {
		t.Errorf("the hub got %q, want the token once", atHub)
	}
	if len(atOther) != 1 || atOther[0] != "" {
		t.Errorf("the other host (same address, another port) got %q, want one request without a token", atOther)
	}
}

func TestATokenIsInNoError(t *testing.T) {
	echo := func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Error-Message", "you sent "+r.Header.Get("Authorization"))
			w.WriteHeader(http.StatusForbidden)
		})
	}
	c := client(t, hub.Options{Endpoint: serve(t, snapshot(), echo).URL, Token: token})
	_, err := c.Info(t.Context(), "weighmaster/example", rev)
	wantError(t, err, "403", "you sent Bearer [token]")
	if strings.Contains(err.Error(), token) {
		t.Errorf("the token is in the error: %v", err)
	}
}

func TestAnonymousUnlessHFTokenIsSet(t *testing.T) {
	env := map[string]string{"HF_TOKEN_PATH": "/secret", "HF_HOME": "/home"}
	if o := hub.FromEnv(func(k string) string { return env[k] }); o.Token != "" || o.Endpoint != "" {
		t.Errorf("got %+v, want an anonymous client of the default endpoint", o)
	}
	env["HF_TOKEN"] = " " + token + "\n"
	if o := hub.FromEnv(func(k string) string { return env[k] }); o.Token != token {
		t.Errorf("got %q", o.Token)
	}
}

func TestRedirectsThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ to, want string }{
		"to plain http":       {"http://example.org/x?sig=secret", "want https"},
		"to a file":           {"file:///etc/passwd", "names no address"},
		"with credentials":    {"https://u:p@example.org/", "names no address"},
		"in a circle":         {"/weighmaster/example/resolve/" + rev + "/config.json", "more than 5 redirects"},
		"to nowhere (opaque)": {"mailto:x", "names no address"},
	} {
		t.Run(name, func(t *testing.T) {
			cl := client(t, hub.Options{Endpoint: serve(t, snapshot(), hubtest.Redirect(c.to)).URL})
			_, err := cl.Open(t.Context(), "weighmaster/example", rev, hub.File{Path: "config.json", Size: 7}, 0)
			wantError(t, err, c.want)
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the signature is in the error: %v", err)
			}
		})
	}
}

func TestOverloadsAreRetriedWithinBounds(t *testing.T) {
	c := client(t, hub.Options{Endpoint: serve(t, snapshot(), hubtest.Status("/revision/", 4, 503, 0)).URL})
	if _, err := c.Info(t.Context(), "weighmaster/example", rev); err != nil {
		t.Errorf("four overloads then an answer: %v", err)
	}
	c = client(t, hub.Options{Endpoint: serve(t, snapshot(), hubtest.Status("/revision/", 99, 429, 0)).URL})
	_, err := c.Info(t.Context(), "weighmaster/example", rev)
	wantError(t, err, "429", "given up after 5 attempts")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	c = client(t, hub.Options{Endpoint: serve(t, snapshot(), hubtest.Status("/revision/", 99, 503, 60)).URL})
	_, err = c.Info(ctx, "weighmaster/example", rev)
	wantError(t, err, "deadline")
}

func TestRangesThatAreNotHonouredStartOver(t *testing.T) {
	for name, c := range map[string]struct {
		fault hubtest.Fault
		want  string
	}{
		"a range answered with 200": {hubtest.IgnoreRange(), "answered 200"},
		"another start":             {hubtest.ContentRange(func(string) string { return "bytes 0-32767/32768" }), `got "bytes 0-`},
		"another total":             {hubtest.ContentRange(func(h string) string { return strings.Replace(h, "/32768", "/40000", 1) }), "/40000"},
		"no Content-Range":          {hubtest.ContentRange(func(string) string { return "" }), `got ""`},
	} {
		t.Run(name, func(t *testing.T) {
			cl := client(t, hub.Options{Endpoint: serve(t, snapshot(), c.fault).URL})
			b, err := cl.Open(t.Context(), "weighmaster/example", rev, hub.File{Path: "model.safetensors", Size: int64(len(weights))}, 1000)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			all, err := io.ReadAll(b)
			if err != nil || b.From != 0 || string(all) != string(weights) {
				t.Errorf("from %d, %d bytes, %v; want the whole file from 0", b.From, len(all), err)
			}
			if !strings.Contains(b.Declined, c.want) {
				t.Errorf("declined: got %q, want %q in it", b.Declined, c.want)
			}
		})
	}
	cl := client(t, hub.Options{Endpoint: serve(t, snapshot()).URL})
	b, err := cl.Open(t.Context(), "weighmaster/example", rev, hub.File{Path: "model.safetensors", Size: int64(len(weights))}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if rest, err := io.ReadAll(b); err != nil || b.From != 1000 || b.Declined != "" || string(rest) != string(weights[1000:]) {
		t.Errorf("an honest server: from %d, %d bytes, declined %q, %v", b.From, len(rest), b.Declined, err)
	}
}

func TestAFileThatTheHubItselfContradicts(t *testing.T) {
	lfs := hub.File{Path: "model.safetensors", Size: int64(len(weights)), LFS: &hub.LFS{SHA256: strings.Repeat("1", 64)}}
	c := client(t, hub.Options{Endpoint: serve(t, snapshot()).URL})
	_, err := c.Open(t.Context(), "weighmaster/example", rev, lfs, 0)
	wantError(t, err, "another file", lfs.LFS.SHA256)
	small := hub.File{Path: "config.json", Size: 7}
	c = client(t, hub.Options{Endpoint: serve(t, snapshot(), hubtest.Header("X-Repo-Commit", strings.Repeat("b", 40))).URL})
	_, err = c.Open(t.Context(), "weighmaster/example", rev, small, 0)
	wantError(t, err, "answered for commit", rev)
	c = client(t, hub.Options{Endpoint: serve(t, snapshot(), hubtest.Header("Content-Encoding", "gzip")).URL})
	_, err = c.Open(t.Context(), "weighmaster/example", rev, small, 0)
	wantError(t, err, "Content-Encoding")
	c = client(t, hub.Options{Endpoint: serve(t, snapshot()).URL})
	_, err = c.Open(t.Context(), "weighmaster/example", rev, hub.File{Path: "config.json", Size: 0}, 0)
	wantError(t, err, "got 7 bytes, want 0")
}

func TestABodyThatStopsIsGivenUp(t *testing.T) {
	stall := func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "7")
			_, _ = w.Write([]byte("abc"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
	}
	c := client(t, hub.Options{Endpoint: serve(t, snapshot(), stall).URL, Idle: 20 * time.Millisecond})
	b, err := c.Open(t.Context(), "weighmaster/example", rev, hub.File{Path: "config.json", Size: 7}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	_, err = io.ReadAll(b)
	wantError(t, err, "no byte came for 20ms")
}

func TestABaseModelIsANameOrNames(t *testing.T) {
	answer := func(card string) []byte {
		return []byte(`{"id":"a/b","sha":"` + rev + `","cardData":{"base_model":` + card + `},"siblings":[{"rfilename":"x","size":1,"blobId":"` + rev + `"}]}`)
	}
	for card, want := range map[string]string{`null`: "[]", `"o/m"`: "[o/m]", `["z/m","o/m"]`: "[o/m z/m]"} {
		info, err := hub.ParseInfo(answer(card))
		if err != nil || fmt.Sprint(info.BaseModels) != want {
			t.Errorf("%s: got %v, %v, want %s", card, info, err, want)
		}
	}
	for _, card := range []string{`7`, `{"name":"o/m"}`, `["o/m",7]`} {
		if _, err := hub.ParseInfo(answer(card)); err == nil || !strings.Contains(err.Error(), "base_model") {
			t.Errorf("%s: got %v, want a refusal that names base_model", card, err)
		}
	}
}

func FuzzParseInfo(f *testing.F) {
	f.Add([]byte(`{"id":"a/b","sha":"` + rev + `","siblings":[{"rfilename":"x","size":1,"blobId":"` + rev + `"}]}`))
	f.Add([]byte(`{"id":"a/b","sha":"` + rev + `","gated":"auto","cardData":{"license":["mit"]},"securityRepoStatus":{"scansDone":true,"filesWithIssues":[{"path":"x","level":"unsafe"}]},"siblings":[{"rfilename":"x","size":1,"blobId":"` + rev + `","lfs":{"sha256":"","size":1}}]}`))
	f.Add([]byte(`{"siblings":[{"rfilename":"..\\x","size":9223372036854775808}]}`))
	f.Add([]byte(`{"a":{"b":[`))
	f.Fuzz(func(t *testing.T, body []byte) {
		info, err := hub.ParseInfo(body)
		if err != nil {
			return
		}
		for _, file := range info.Files {
			if hub.CheckName(file.Path) != nil || file.Size < 0 || len(file.BlobID) != 40 {
				t.Errorf("accepted %+v", file)
			}
		}
	})
}
