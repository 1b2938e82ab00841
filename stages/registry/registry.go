// Package registry keeps accepted files in OCI registries (OCI Distribution
// Specification 1.1): a file is the one layer of an artifact manifest, and its
// evidence lies beside it as referrers, where other tools find it.
//
// A registry is believed nothing: every byte that comes from it is hashed
// against a digest that was known before, and a tag is held to the manifest
// that it named first.
package registry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	godigest "github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/retry"
)

// Scheme begins the address of an artifact in a registry.
const Scheme = "oci://"

// Types of what is kept.
const (
	ArtifactType = "application/vnd.weighmaster.model.v1"        // a file; its manifest's artifactType
	FileType     = "application/vnd.weighmaster.model.file.v1"   // its layer
	PackageType  = "application/vnd.weighmaster.evidence.v1+zip" // an evidence package: artifactType and layer
	BundleType   = "application/vnd.dev.sigstore.bundle.v0.3+json"
)

// Limits of what is read into memory.
const (
	maxManifest  = 4 << 20 // bytes
	maxReferrers = 10_000
	maxPages     = 100
)

// Options are how to reach a registry.
type Options struct {
	PlainHTTP bool // without TLS also where the registry is not on loopback
	// Transport carries the requests; net/http's with repeats when nil.
	Transport http.RoundTripper
}

// Repo is a repository in a registry, and a tag or digest in it.
type Repo struct {
	address string
	ref     registry.Reference
	repo    *remote.Repository
}

// Open reads oci://registry/repository:tag or …@sha256:digest and prepares to
// talk to the registry, with the credentials of docker's configuration. Nothing
// is asked yet.
func Open(address string, opt Options) (*Repo, error) {
	ref, err := Parse(address)
	if err != nil {
		return nil, err
	}
	repo := &remote.Repository{
		Reference: ref, PlainHTTP: opt.PlainHTTP || onLoopback(ref.Registry), MaxMetadataBytes: maxManifest,
		ReferrerListMaxPages: maxPages, TagListMaxPages: maxPages,
		SkipReferrersGC: true, // an index that was replaced stays; most registries let nobody delete
	}
	store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return nil, fmt.Errorf("%s: docker's configuration of credentials: %w", address, err)
	}
	repo.Client = &auth.Client{Client: client(opt.Transport), Cache: auth.NewCache(), Credential: credentials.Credential(store)}
	return &Repo{address, ref, repo}, nil
}

// client repeats what failed for a moment, and never waits for an answer's start without an end.
func client(transport http.RoundTripper) *http.Client {
	if transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.ResponseHeaderTimeout = 5 * time.Minute // a registry hashes what it was given before it answers
		transport = t
	}
	return &http.Client{Transport: retry.NewTransport(transport)}
}

// Parse reads an address. It must name a tag or a sha256 digest, and hold no credentials.
func Parse(address string) (registry.Reference, error) {
	bad := func(why string) (registry.Reference, error) {
		return registry.Reference{}, fmt.Errorf("address %.300q: %s; want oci://registry/repository:tag", address, why)
	}
	rest, ok := strings.CutPrefix(address, Scheme)
	if !ok {
		return bad("it does not begin with " + Scheme)
	}
	if strings.ContainsAny(rest[:max(0, strings.Index(rest, "/"))], "@\\ ?#") {
		return bad("its registry is no host name; credentials come from docker's configuration")
	}
	ref, err := registry.ParseReference(rest)
	if err != nil {
		return bad("it cannot be read as a reference")
	}
	if ref.Reference == "" {
		return bad("it names no tag and no digest")
	}
	if d, err := ref.Digest(); err == nil && d.Algorithm() != godigest.SHA256 {
		return bad("its digest is not sha256")
	}
	return ref, nil
}

func onLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// tagged tells whether the address names a tag, which can move.
func (r *Repo) tagged() bool {
	_, err := r.ref.Digest()
	return err != nil
}

// resolve gives the manifest that the address names now; errdef.ErrNotFound.
func (r *Repo) resolve(ctx context.Context) (ocispec.Descriptor, error) {
	desc, err := r.repo.Resolve(ctx, r.ref.Reference)
	if err == nil && (desc.Digest.Validate() != nil || desc.Digest.Algorithm() != godigest.SHA256) {
		err = fmt.Errorf("the registry answers with digest %.100q, want sha256", string(desc.Digest))
	}
	if err != nil {
		return desc, fmt.Errorf("%s: %w", r.address, err)
	}
	return desc, nil
}

// fetch reads a small object and holds it against its digest and size.
func (r *Repo) fetch(ctx context.Context, from content.Fetcher, desc ocispec.Descriptor, limit int64) ([]byte, error) {
	if desc.Size < 0 || desc.Size > limit {
		return nil, fmt.Errorf("%s: %s has %d bytes, want at most %d", r.address, desc.Digest, desc.Size, limit)
	}
	if err := desc.Digest.Validate(); err != nil || desc.Digest.Algorithm() != godigest.SHA256 {
		return nil, fmt.Errorf("%s: digest %.100q, want sha256", r.address, string(desc.Digest))
	}
	body, err := content.FetchAll(ctx, from, desc)
	if err != nil {
		return nil, fmt.Errorf("%s: fetch %s: %w", r.address, desc.Digest, err)
	}
	return body, nil
}

// missing tells whether an error says that the registry has no such thing.
func missing(err error) bool { return errors.Is(err, errdef.ErrNotFound) }

// OtherBytesError says that a registry has, or gave, other bytes than those that were accepted.
type OtherBytesError struct{ Where, What, Got, Want, Hint string }

func (e *OtherBytesError) Error() string {
	return fmt.Sprintf("%s: %s: got %s, want %s; %s", e.Where, e.What, e.Got, e.Want, e.Hint)
}

// MovedError says that a tag names another manifest than before.
type MovedError struct {
	Where         string
	Before, After godigest.Digest
}

func (e *MovedError) Error() string {
	return fmt.Sprintf("%s: the tag moved during the transfer: it named %s and names %s", e.Where, e.Before, e.After)
}

// still wants the address to name the manifest that it named before.
func (r *Repo) still(ctx context.Context, before ocispec.Descriptor) error {
	if !r.tagged() {
		return nil
	}
	now, err := r.resolve(ctx)
	if missing(err) {
		return &MovedError{r.address, before.Digest, "nothing"}
	}
	if err != nil {
		return err
	}
	if now.Digest != before.Digest {
		return &MovedError{r.address, before.Digest, now.Digest}
	}
	return nil
}
