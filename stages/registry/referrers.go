package registry

import (
	"context"
	"fmt"
	"sort"

	godigest "github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Found is one piece of evidence that a registry keeps for a manifest.
type Found struct {
	Manifest godigest.Digest
	Created  string // as its publisher says; RFC 3339
	blob     ocispec.Descriptor
}

// ForeignReferrerError says that a registry lists a referrer that is about something else.
type ForeignReferrerError struct {
	Where    string
	Referrer godigest.Digest
	Got      string
	Want     godigest.Digest
}

func (e *ForeignReferrerError) Error() string {
	return fmt.Sprintf("%s: the registry lists %s as a referrer, which is about %s, want %s; its listing is not to be believed", e.Where, e.Referrer, e.Got, e.Want)
}

// Evidence lists what of one kind ([PackageType] or [BundleType]) is attached to
// the manifest that the address names, oldest first. A referrer of another subject is an error.
func (r *Repo) Evidence(ctx context.Context, kind string) ([]Found, error) {
	subject, err := r.resolve(ctx)
	if err != nil {
		return nil, err
	}
	var listed []ocispec.Descriptor
	// Registries differ in what they list as a referrer's type: all are asked for, and the manifests decide.
	if err := r.repo.Referrers(ctx, subject, "", func(page []ocispec.Descriptor) error {
		if listed = append(listed, page...); len(listed) > maxReferrers {
			return fmt.Errorf("more than %d referrers", maxReferrers)
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("%s: list the referrers: %w", r.address, err)
	}
	var found []Found
	for _, d := range listed {
		if d.ArtifactType != kind && (d.ArtifactType == PackageType || d.ArtifactType == BundleType) {
			continue
		}
		m, err := r.manifest(ctx, d)
		if err != nil {
			return nil, err
		}
		about := "nothing"
		if m.Subject != nil {
			about = m.Subject.Digest.String()
		}
		switch {
		case about != subject.Digest.String():
			return nil, &ForeignReferrerError{r.address, d.Digest, about, subject.Digest}
		case m.ArtifactType != kind:
			continue
		case len(m.Layers) != 1:
			return nil, fmt.Errorf("%s: referrer %s has %d layers, want 1", r.address, d.Digest, len(m.Layers))
		}
		found = append(found, Found{d.Digest, m.Annotations[ocispec.AnnotationCreated], m.Layers[0]})
	}
	sort.Slice(found, func(i, j int) bool {
		if found[i].Created != found[j].Created {
			return found[i].Created < found[j].Created
		}
		return found[i].Manifest < found[j].Manifest
	})
	return found, nil
}

// Fetch reads one piece of evidence of at most limit bytes and holds it against its digest.
func (r *Repo) Fetch(ctx context.Context, f Found, limit int64) ([]byte, error) {
	return r.fetch(ctx, r.repo.Blobs(), f.blob, limit)
}
