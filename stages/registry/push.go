package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	godigest "github.com/opencontainers/go-digest"
	specs "github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

// File is a file on this machine whose bytes were accepted.
type File struct {
	Path, Name string
	Size       int64 // bytes
	Digest     godigest.Digest
	Notes      map[string]string // further annotations of the manifest
}

// Pushed is what a push did.
type Pushed struct {
	Manifest godigest.Digest
	Resumed  int64           // bytes that the registry had already
	Remote   godigest.Digest // of all bytes, read back from the registry
}

// ReadBack is how the registry's digest was computed.
const ReadBack = "all bytes read back from the registry and hashed here"

// Push puts a file into the registry under the address's tag: its bytes first,
// which are read back whole, then the manifest. A tag that names another
// manifest is never moved.
func (r *Repo) Push(ctx context.Context, file File, tell func(done, total int64)) (Pushed, error) {
	layer := ocispec.Descriptor{MediaType: FileType, Digest: file.Digest, Size: file.Size, Annotations: map[string]string{ocispec.AnnotationTitle: file.Name}}
	desc, body, err := pack(ArtifactType, layer, nil, file.Notes)
	if err != nil {
		return Pushed{}, err
	}
	done := Pushed{Manifest: desc.Digest}
	if !r.tagged() {
		return done, fmt.Errorf("%s: a file is delivered under a tag; a digest is what comes out", r.address)
	}
	switch there, err := r.resolve(ctx); {
	case missing(err):
	case err != nil:
		return done, err
	case there.Digest != desc.Digest:
		return done, &OtherBytesError{r.address, "the tag", there.Digest.String(), desc.Digest.String(), "a tag that is taken is never moved: deliver under another one"}
	}
	if done.Resumed, err = r.pushFile(ctx, file, layer, tell); err != nil {
		return done, err
	}
	if done.Remote, err = r.readBack(ctx, layer); err != nil {
		return done, err
	}
	if done.Remote != file.Digest {
		return done, &OtherBytesError{r.address, "the bytes that the registry has", done.Remote.String(), file.Digest.String(), "the tag was not set"}
	}
	if err := r.pushConfig(ctx); err != nil {
		return done, err
	}
	if err := r.repo.Manifests().PushReference(ctx, desc, bytes.NewReader(body), r.ref.Reference); err != nil {
		return done, fmt.Errorf("%s: push the manifest: %w", r.address, err)
	}
	if err := r.still(ctx, desc); err != nil {
		return done, err
	}
	_, err = r.fetch(ctx, r.repo.Manifests(), desc, maxManifest)
	return done, err
}

// pushFile sends the bytes, unless the registry says that it has them.
func (r *Repo) pushFile(ctx context.Context, file File, layer ocispec.Descriptor, tell func(done, total int64)) (had int64, err error) {
	has, err := r.repo.Blobs().Exists(ctx, layer)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", r.address, err)
	}
	if has {
		return file.Size, nil
	}
	f, err := os.Open(file.Path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if err := r.repo.Blobs().Push(ctx, layer, &telling{Reader: f, total: file.Size, tell: tell}); err != nil {
		return 0, fmt.Errorf("%s: send %s (run again to start over): %w", r.address, file.Name, err)
	}
	return 0, nil
}

func (r *Repo) pushConfig(ctx context.Context) error {
	empty := ocispec.DescriptorEmptyJSON
	return r.pushSmall(ctx, ocispec.Descriptor{MediaType: empty.MediaType, Digest: empty.Digest, Size: empty.Size}, empty.Data)
}

func (r *Repo) pushSmall(ctx context.Context, desc ocispec.Descriptor, body []byte) error {
	has, err := r.repo.Blobs().Exists(ctx, desc)
	if err == nil && !has {
		err = r.repo.Blobs().Push(ctx, desc, bytes.NewReader(body))
	}
	if err != nil {
		return fmt.Errorf("%s: send %s: %w", r.address, desc.Digest, err)
	}
	return nil
}

// readBack hashes all bytes that the registry has under a digest.
func (r *Repo) readBack(ctx context.Context, layer ocispec.Descriptor) (godigest.Digest, error) {
	d := godigest.Canonical.Digester()
	s := &stream{r: r, layer: layer}
	defer s.close()
	if n, err := s.copyTo(ctx, d.Hash(), nil); err != nil {
		return "", err
	} else if n != layer.Size {
		return "", fmt.Errorf("%s: %s: the registry has %d bytes, want %d", r.address, layer.Digest, n, layer.Size)
	}
	return d.Digest(), nil
}

// Evidence is what is attached to a file: its evidence package, and every
// bundle of it on its own. All of it is public.
type Evidence struct {
	Name    string // of the package
	Package []byte
	At      time.Time // of its newest entry
	Bundles []Bundle
}

// Bundle is one Sigstore bundle.
type Bundle struct {
	Body          []byte
	PredicateType string
	At            time.Time // when the log took it in
}

// Attach makes evidence referrers of the manifest that the address names, which
// must be of the file that the evidence is about. What
// is attached already stays as it is. It returns the package's manifest.
func (r *Repo) Attach(ctx context.Context, about godigest.Digest, ev Evidence) (godigest.Digest, error) {
	subject, err := r.resolve(ctx)
	if err != nil {
		return "", err
	}
	if _, err := r.layer(ctx, subject, about); err != nil {
		return "", err
	}
	if err := r.pushConfig(ctx); err != nil {
		return "", err
	}
	for _, b := range ev.Bundles {
		notes := map[string]string{
			ocispec.AnnotationCreated:           b.At.UTC().Format(time.RFC3339),
			"dev.sigstore.bundle.content":       "dsse-envelope",
			"dev.sigstore.bundle.predicateType": b.PredicateType,
		}
		if _, err := r.attach(ctx, subject, BundleType, b.Body, "", notes); err != nil {
			return "", err
		}
	}
	return r.attach(ctx, subject, PackageType, ev.Package, ev.Name, map[string]string{ocispec.AnnotationCreated: ev.At.UTC().Format(time.RFC3339)})
}

func (r *Repo) attach(ctx context.Context, subject ocispec.Descriptor, kind string, blob []byte, name string, notes map[string]string) (godigest.Digest, error) {
	layer := content.NewDescriptorFromBytes(kind, blob)
	if name != "" {
		layer.Annotations = map[string]string{ocispec.AnnotationTitle: name}
	}
	desc, body, err := pack(kind, layer, &subject, notes)
	if err != nil {
		return "", err
	}
	if err := r.pushSmall(ctx, layer, blob); err != nil {
		return "", err
	}
	if err := r.repo.Manifests().Push(ctx, desc, bytes.NewReader(body)); err != nil {
		return "", fmt.Errorf("%s: attach %s: %w", r.address, kind, err)
	}
	return desc.Digest, nil
}

// pack makes the manifest of one layer. The same input gives the same bytes.
func pack(kind string, layer ocispec.Descriptor, subject *ocispec.Descriptor, notes map[string]string) (ocispec.Descriptor, []byte, error) {
	m := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: kind,
		Config: ocispec.DescriptorEmptyJSON, Layers: []ocispec.Descriptor{layer}, Annotations: notes,
	}
	if subject != nil {
		m.Subject = &ocispec.Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size}
	}
	body, err := json.Marshal(m)
	if err != nil {
		return ocispec.Descriptor{}, nil, err
	}
	desc := content.NewDescriptorFromBytes(m.MediaType, body)
	desc.ArtifactType, desc.Annotations = kind, notes
	return desc, body, nil
}

// telling is a reader that tells how much of it was read.
type telling struct {
	io.Reader
	done, total int64
	tell        func(done, total int64)
}

func (t *telling) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	if t.done += int64(n); t.tell != nil {
		t.tell(t.done, t.total)
	}
	return n, err
}
