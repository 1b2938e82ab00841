package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	godigest "github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/stages/registry/registrytest"
)

var body = func() []byte {
	b := make([]byte, 3<<20+77)
	r := rand.NewChaCha8([32]byte{2})
	_, _ = r.Read(b)
	return b
}()

var (
	want = godigest.FromBytes(body)
	at   = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
)

func registries(t *testing.T, do func(t *testing.T, s *registrytest.Server)) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	for kind, variable := range registrytest.Kinds {
		t.Run(kind, func(t *testing.T) {
			s, err := registrytest.Start(t, kind)
			if errors.Is(err, registrytest.ErrMissing) {
				shared.Missing(t, "%s: %v", variable, err)
			}
			if err != nil {
				t.Fatal(err)
			}
			do(t, s)
		})
	}
}

func open(t *testing.T, s *registrytest.Server, name string) *Repo {
	t.Helper()
	r, err := Open(Scheme+s.Host+"/models/"+name, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func local(t *testing.T, b []byte) File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, b, 0o444); err != nil {
		t.Fatal(err)
	}
	return File{Path: path, Name: "model.gguf", Size: int64(len(b)), Digest: godigest.FromBytes(b)}
}

func push(t *testing.T, s *registrytest.Server, name string, b []byte) (*Repo, Pushed) {
	t.Helper()
	r := open(t, s, name)
	p, err := r.Push(t.Context(), local(t, b), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r, p
}

// partial is a file that a pull fills.
func partial(t *testing.T, have []byte) (*LocalPartial, string, *[]byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p")
	if err := os.WriteFile(path, have, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	var kept []byte
	p := &LocalPartial{File: f}
	p.Rename = func() (*os.File, error) {
		b, err := os.ReadFile(path)
		kept = b
		return f, errors.Join(err, f.Truncate(0))
	}
	t.Cleanup(func() { _ = f.Close() })
	return p, path, &kept
}

func TestAFileIsPushedOnceAndPulled(t *testing.T) {
	registries(t, func(t *testing.T, s *registrytest.Server) {
		r, first := push(t, s, "small:q8", body)
		if first.Resumed != 0 || first.Remote != want {
			t.Errorf("%+v", first)
		}
		again, err := r.Push(t.Context(), local(t, body), nil)
		if err != nil || again.Manifest != first.Manifest || again.Resumed != int64(len(body)) {
			t.Errorf("again: %+v, %v", again, err)
		}
		_, err = r.Push(t.Context(), local(t, body[1:]), nil)
		var other *OtherBytesError
		if !errors.As(err, &other) || !strings.Contains(err.Error(), "a tag that is taken is never moved") {
			t.Errorf("another file under the tag: %v", err)
		}
		for name, k := range map[string]struct {
			have    []byte
			resumed int
			kept    bool
		}{
			"nothing": {}, "a prefix": {body[:1<<20+5], 1<<20 + 5, false}, "all": {body, len(body), false},
			"other bytes": {bytes.Repeat([]byte{7}, 1000), 0, true}, "one other byte at the end": {append(bytes.Clone(body[:2000]), body[2000]^1), 0, true},
			"more than all": {append(bytes.Clone(body), 1), 0, true},
		} {
			p, path, kept := partial(t, k.have)
			got, err := r.Pull(t.Context(), want, p, nil)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if got.Resumed != int64(k.resumed) || got.Remote != want || got.Manifest != first.Manifest || got.Size != int64(len(body)) || got.Kept != k.kept || (k.kept && !bytes.Equal(*kept, k.have)) {
				t.Errorf("%s: %+v", name, got)
			}
			if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, body) {
				t.Errorf("%s: %d bytes, %v", name, len(b), err)
			}
		}
		byDigest := open(t, s, "small@"+first.Manifest.String())
		p, _, _ := partial(t, nil)
		if _, err := byDigest.Pull(t.Context(), want, p, nil); err != nil {
			t.Errorf("by digest: %v", err)
		}
		if _, err := byDigest.Push(t.Context(), local(t, body), nil); err == nil || !strings.Contains(err.Error(), "delivered under a tag") {
			t.Errorf("push to a digest: %v", err)
		}
	})
}

func TestACutDownloadGoesOnInTheSameRun(t *testing.T) {
	cuts := 0
	registries(t, func(t *testing.T, s *registrytest.Server) {
		r, _ := push(t, s, "cut:q8", body)
		s.CutAfter(int64(len(body)) * 6 / 10)
		p, path, _ := partial(t, nil)
		got, err := r.Pull(t.Context(), want, p, nil)
		if err != nil || got.Cuts != 1 || got.Remote != want || s.Cuts() != 1 {
			t.Errorf("%+v, %v, %d cuts", got, err, s.Cuts())
		}
		if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, body) {
			t.Errorf("%d bytes, %v", len(b), err)
		}
		cuts += s.Cuts()
	})
	fmt.Printf("registry downloads: %d connections cut, each gone on with\n", cuts)
}

func TestARegistryIsBelievedNothing(t *testing.T) {
	evil := bytes.Clone(body)
	evil[1<<20] ^= 1
	isBlob := func(r *http.Response) bool {
		return r.Request.Method == http.MethodGet && strings.HasSuffix(r.Request.URL.Path, want.String())
	}
	isManifest := func(r *http.Response) bool {
		return r.Request.Method == http.MethodGet && strings.Contains(r.Request.URL.Path, "/manifests/")
	}
	for name, k := range map[string]struct {
		change func(t *testing.T, s *registrytest.Server) func(*http.Response) error
		why    string
	}{
		"another blob under the digest": {func(*testing.T, *registrytest.Server) func(*http.Response) error {
			return func(r *http.Response) error {
				if isBlob(r) {
					registrytest.Replace(r, evil)
				}
				return nil
			}
		}, "it serves other bytes under this digest"},
		"a shorter blob": {func(*testing.T, *registrytest.Server) func(*http.Response) error {
			return func(r *http.Response) error {
				if isBlob(r) {
					registrytest.Replace(r, body[:1000])
				}
				return nil
			}
		}, "mismatch Content-Length"},
		"a manifest that was changed": {func(*testing.T, *registrytest.Server) func(*http.Response) error {
			return func(r *http.Response) error {
				if isManifest(r) {
					b, err := io.ReadAll(r.Body)
					if err != nil {
						return err
					}
					registrytest.Replace(r, bytes.Replace(b, []byte("model.gguf"), []byte("other.gguf"), 1))
				}
				return nil
			}
		}, "mismatch|digest"},
		"a tag that names another file": {func(t *testing.T, s *registrytest.Server) func(*http.Response) error {
			move(t, s, "evil:q8", evil)
			return nil
		}, "the tag names something else than this file"},
	} {
		t.Run(name, func(t *testing.T) {
			registries(t, func(t *testing.T, s *registrytest.Server) {
				r, _ := push(t, s, "evil:q8", body)
				s.Change(k.change(t, s))
				p, path, _ := partial(t, nil)
				_, err := r.Pull(t.Context(), want, p, nil)
				fits := false
				for _, w := range strings.Split(k.why, "|") {
					fits = fits || (err != nil && strings.Contains(err.Error(), w))
				}
				if !fits {
					t.Errorf("got %v, want %q", err, k.why)
				}
				if b, err := os.ReadFile(path); err != nil || bytes.Equal(b, body) {
					t.Errorf("the whole file came all the same: %v", err)
				}
			})
		})
	}
}

// move puts another file under a tag that is taken, as any other client may.
func move(t *testing.T, s *registrytest.Server, name string, b []byte) {
	t.Helper()
	r := open(t, s, name)
	layer := ocispec.Descriptor{MediaType: FileType, Digest: godigest.FromBytes(b), Size: int64(len(b))}
	desc, manifest, err := pack(ArtifactType, layer, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.pushSmall(t.Context(), layer, b); err != nil {
		t.Fatal(err)
	}
	if err := r.repo.Manifests().PushReference(t.Context(), desc, bytes.NewReader(manifest), r.ref.Reference); err != nil {
		t.Fatal(err)
	}
}

func TestATagThatMovesDuringTheTransferIsRefused(t *testing.T) {
	registries(t, func(t *testing.T, s *registrytest.Server) {
		r, _ := push(t, s, "moved:q8", body)
		p, _, _ := partial(t, nil)
		_, err := r.Pull(t.Context(), want, p, func(done, total int64) {
			if done == total {
				move(t, s, "moved:q8", body[1:])
			}
		})
		var moved *MovedError
		if !errors.As(err, &moved) || !strings.Contains(err.Error(), "the tag moved during the transfer") {
			t.Errorf("got %v", err)
		}
	})
}

func TestBytesThatTheRegistryHasWrongGetNoTag(t *testing.T) {
	registries(t, func(t *testing.T, s *registrytest.Server) {
		s.Change(func(r *http.Response) error {
			if r.Request.Method == http.MethodGet && strings.HasSuffix(r.Request.URL.Path, want.String()) {
				evil := bytes.Clone(body)
				evil[7] ^= 1
				registrytest.Replace(r, evil)
			}
			return nil
		})
		r := open(t, s, "bad:q8")
		_, err := r.Push(t.Context(), local(t, body), nil)
		if err == nil || !strings.Contains(err.Error(), "the tag was not set") {
			t.Errorf("got %v", err)
		}
		if _, err := r.resolve(t.Context()); !missing(err) {
			t.Errorf("the tag: %v", err)
		}
	})
}

func evidence(n int) Evidence {
	ev := Evidence{Name: "model.gguf.evidence.zip", Package: []byte("a package"), At: at}
	for i := range n {
		ev.Bundles = append(ev.Bundles, Bundle{fmt.Appendf(nil, `{"bundle":%d}`, i), "https://slsa.dev/provenance/v1", at.Add(time.Duration(i) * time.Second)})
	}
	return ev
}

func TestEvidenceIsFoundAsReferrers(t *testing.T) {
	registries(t, func(t *testing.T, s *registrytest.Server) {
		r, _ := push(t, s, "seen:q8", body)
		for range 2 { // what is attached already stays as it is
			if _, err := r.Attach(t.Context(), want, evidence(3)); err != nil {
				t.Fatal(err)
			}
		}
		newer := evidence(0)
		newer.Package, newer.At = []byte("a newer package"), at.Add(time.Hour)
		if _, err := r.Attach(t.Context(), want, newer); err != nil {
			t.Fatal(err)
		}
		for kind, want := range map[string][]string{PackageType: {"a package", "a newer package"}, BundleType: {`{"bundle":0}`, `{"bundle":1}`, `{"bundle":2}`}} {
			found, err := r.Evidence(t.Context(), kind)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range found {
				b, err := r.Fetch(t.Context(), f, 100)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(b))
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %q, want %q", kind, got, want)
			}
			if _, err := r.Fetch(t.Context(), found[0], 3); err == nil || !strings.Contains(err.Error(), "want at most 3") {
				t.Errorf("beyond the limit: %v", err)
			}
		}
		if _, err := r.Attach(t.Context(), godigest.FromString("another"), evidence(0)); err == nil || !strings.Contains(err.Error(), "the tag names something else") {
			t.Errorf("evidence of another file: %v", err)
		}
		// Another client finds the same, also in a registry whose API lists other types than the manifests have.
		other := open(t, s, "seen:q8")
		if found, err := other.Evidence(t.Context(), BundleType); err != nil || len(found) != 3 {
			t.Errorf("another client: %d bundles, %v", len(found), err)
		}
		// By the specification's own fields, where the registry keeps a listing as it was pushed.
		desc, err := r.resolve(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		if err := r.repo.Referrers(t.Context(), desc, BundleType, func(page []ocispec.Descriptor) error {
			for _, d := range page {
				seen++
				if d.ArtifactType != BundleType || d.Annotations["dev.sigstore.bundle.predicateType"] != "https://slsa.dev/provenance/v1" || d.Annotations["dev.sigstore.bundle.content"] != "dsse-envelope" {
					t.Errorf("listed as %+v", d)
				}
			}
			return nil
		}); err != nil || seen != 3 {
			t.Errorf("%d bundles listed by their type, %v", seen, err)
		}
	})
}

func TestAReferrerOfAnotherSubjectIsRefused(t *testing.T) {
	registries(t, func(t *testing.T, s *registrytest.Server) {
		other, _ := push(t, s, "two:other", body[1:])
		if _, err := other.Attach(t.Context(), godigest.FromBytes(body[1:]), evidence(0)); err != nil {
			t.Fatal(err)
		}
		subject, err := other.resolve(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var listed []ocispec.Descriptor
		if err := other.repo.Referrers(t.Context(), subject, "", func(page []ocispec.Descriptor) error {
			listed = append(listed, page...)
			return nil
		}); err != nil || len(listed) != 1 {
			t.Fatalf("%v, %v", listed, err)
		}
		r, _ := push(t, s, "two:q8", body)
		if _, err := r.Attach(t.Context(), want, evidence(0)); err != nil {
			t.Fatal(err)
		}
		s.Change(func(res *http.Response) error {
			path := res.Request.URL.Path
			if res.Request.Method != http.MethodGet || (!strings.Contains(path, "/referrers/") && !strings.Contains(path, "/manifests/sha256-")) || res.StatusCode != http.StatusOK {
				return nil
			}
			index, err := json.Marshal(ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: listed})
			if err != nil {
				return err
			}
			res.Header.Set("Content-Type", ocispec.MediaTypeImageIndex)
			res.Header.Del("Docker-Content-Digest")
			registrytest.Replace(res, bytes.Replace(index, []byte(`"schemaVersion":0`), []byte(`"schemaVersion":2`), 1))
			return nil
		})
		_, err = r.Evidence(t.Context(), PackageType)
		var foreign *ForeignReferrerError
		if !errors.As(err, &foreign) || !strings.Contains(err.Error(), "its listing is not to be believed") {
			t.Errorf("got %v", err)
		}
	})
}

func TestAnAddressIsReadStrictly(t *testing.T) {
	for address, why := range map[string]string{
		"oci://host/repo":                    "it names no tag",
		"https://host/repo:tag":              "does not begin with oci://",
		"oci://user:pw@host/repo:tag":        "its registry is no host name",
		"oci://host/../x:tag":                "cannot be read as a reference",
		"oci://host/Repo:tag":                "cannot be read as a reference",
		"oci://host/repo:ta g":               "cannot be read as a reference",
		"oci://host/repo@sha512:" + hex(128): "its digest is not sha256",
		"oci://host/repo@sha256:12":          "cannot be read as a reference",
		"oci://host":                         "cannot be read as a reference",
		"oci:///repo:tag":                    "cannot be read as a reference",
	} {
		if _, err := Open(address, Options{}); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: got %v, want %q", address, err, why)
		}
	}
	for host, plain := range map[string]bool{"127.0.0.1:5000": true, "localhost": true, "[::1]:5000": true, "registry.example.com": false, "10.0.0.1:5000": false, "localhost.example.com": false} {
		if onLoopback(host) != plain {
			t.Errorf("%s: plain HTTP %v, want %v", host, !plain, plain)
		}
	}
	r, err := Open("oci://registry.example.com/repo:tag", Options{})
	if err != nil || r.repo.PlainHTTP {
		t.Errorf("plain HTTP to another machine: %v", err)
	}
}

func hex(n int) string { return strings.Repeat("a", n) }

func FuzzParse(f *testing.F) {
	for _, s := range []string{"oci://h/r:t", "oci://h:5000/a/b@sha256:" + hex(64), "oci://u@h/r:t", "oci://h/r:t@sha256:" + hex(64)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ref, err := Parse(s)
		if err == nil && (ref.Registry == "" || ref.Repository == "" || ref.Reference == "" || strings.ContainsAny(ref.Registry, "@/ ")) {
			t.Errorf("%q: %+v", s, ref)
		}
	})
}
