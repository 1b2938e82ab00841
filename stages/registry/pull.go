package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	godigest "github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Pulled is what a pull did.
type Pulled struct {
	Manifest godigest.Digest
	Size     int64           // bytes of the file
	Resumed  int64           // bytes that were here already and are those of the registry
	Remote   godigest.Digest // of all bytes that the registry gave
	Cuts     int             // connections that ended early
	Kept     bool            // what was in the partial file are other bytes; they were moved aside
}

// PulledBy is how the registry's digest was computed.
const PulledBy = "all bytes that the registry gave, hashed as they came"

// Partial is the file here that a pull fills.
type Partial interface {
	io.ReadWriteSeeker
	// Size is how many bytes it has.
	Size() (int64, error)
	// Aside keeps what it has under another name and starts it anew.
	Aside() error
}

// Pull fills a partial file with the layer that has exactly the accepted
// digest, from the manifest that the address names. Registries hash nothing on
// demand: bytes that are here already are held against the registry's one by
// one, and gone on from only if all of them are a prefix. All that came is hashed, and the tag must
// name the same manifest at the end.
func (r *Repo) Pull(ctx context.Context, want godigest.Digest, partial Partial, tell func(done, total int64)) (p Pulled, err error) {
	desc, err := r.resolve(ctx)
	if err != nil {
		return p, err
	}
	p.Manifest = desc.Digest
	layer, err := r.layer(ctx, desc, want)
	if err != nil {
		return p, err
	}
	p.Size = layer.Size
	have, err := partial.Size()
	if err != nil {
		return p, err
	}
	if have > layer.Size {
		if err := partial.Aside(); err != nil {
			return p, err
		}
		have, p.Kept = 0, true
	}
	for {
		if _, err := partial.Seek(0, io.SeekStart); err != nil {
			return p, err
		}
		hash := godigest.Canonical.Digester()
		s := &stream{r: r, layer: layer}
		_, err := s.copyTo(ctx, io.MultiWriter(hash.Hash(), &onto{to: partial, have: have}), tell)
		s.close()
		p.Cuts += s.cuts
		if errors.Is(err, errNoPrefix) && !p.Kept {
			if err := partial.Aside(); err != nil {
				return p, err
			}
			have, p.Kept = 0, true
			continue
		}
		if err != nil {
			return p, err
		}
		p.Resumed, p.Remote = have, hash.Digest()
		break
	}
	if p.Remote != want {
		return p, &OtherBytesError{r.address, "the bytes that the registry gave under " + layer.Digest.String(), p.Remote.String(), want.String(), "it serves other bytes under this digest"}
	}
	return p, r.still(ctx, desc)
}

// layer finds the accepted bytes in the manifest.
func (r *Repo) layer(ctx context.Context, desc ocispec.Descriptor, want godigest.Digest) (ocispec.Descriptor, error) {
	m, err := r.manifest(ctx, desc)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	var there []string
	for _, l := range m.Layers {
		if l.Digest == want && l.Size >= 0 {
			return l, nil
		}
		there = append(there, l.Digest.String())
	}
	return ocispec.Descriptor{}, &OtherBytesError{r.address, "the layers of manifest " + desc.Digest.String(), fmt.Sprintf("%.300s", strings.Join(there, ", ")), want.String(), "the tag names something else than this file"}
}

// manifest reads an image manifest, which is what artifacts are.
func (r *Repo) manifest(ctx context.Context, desc ocispec.Descriptor) (ocispec.Manifest, error) {
	var m ocispec.Manifest
	body, err := r.fetch(ctx, r.repo.Manifests(), desc, maxManifest)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return m, fmt.Errorf("%s: manifest %s: %w", r.address, desc.Digest, err)
	}
	if m.SchemaVersion != 2 || m.MediaType != ocispec.MediaTypeImageManifest {
		return m, fmt.Errorf("%s: manifest %s is a %.100q, want %s", r.address, desc.Digest, m.MediaType, ocispec.MediaTypeImageManifest)
	}
	return m, nil
}

var errNoPrefix = errors.New("the bytes that are here are no prefix")

// onto holds what comes against what a file has, and writes what is behind it.
type onto struct {
	to   io.ReadWriteSeeker
	have int64 // bytes of the file that are still to be compared
	buf  []byte
}

func (o *onto) Write(p []byte) (int, error) {
	n := int(min(int64(len(p)), o.have))
	if n > 0 {
		if len(o.buf) < n {
			o.buf = make([]byte, n)
		}
		if _, err := io.ReadFull(o.to, o.buf[:n]); err != nil {
			return 0, err
		}
		if !bytes.Equal(o.buf[:n], p[:n]) {
			return 0, errNoPrefix
		}
		o.have -= int64(n)
	}
	written, err := o.to.Write(p[n:])
	return n + written, err
}

// LocalPartial is a [Partial] on this machine's disk.
type LocalPartial struct {
	*os.File
	Rename func() (*os.File, error) // moves the file aside and opens a new one
}

// Size implements [Partial].
func (l *LocalPartial) Size() (int64, error) {
	st, err := l.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// Aside implements [Partial].
func (l *LocalPartial) Aside() error {
	f, err := l.Rename()
	if err == nil {
		l.File = f
	}
	return err
}
