// Package objects keeps evidence (reports, logs, arrays, patches) by content.
//
// An object lies at sha256/ab/<64 hexadecimal digits>, where ab are the first
// two, read-only. Beside it lies a small JSON file, the same name with
// ".json", that says its size, media type and whether it is public. An object
// without that file is an unfinished write and does not exist. Files are
// written whole or not at all and made durable before Put returns; several
// processes may share the folder.
//
// The digest is the proof of the bytes. The JSON file is proved by nothing:
// what decides over evidence goes by digests that a bundle names.
package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"os"
	"path/filepath"
	"sync/atomic"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/ledger/internal/durable"
)

// Limits on what is read into memory.
const (
	MaxInMemory       = 64 << 20 // bytes that Get returns
	MaxMediaTypeBytes = 255
	maxSidecarBytes   = 4096
)

var (
	// ErrNotFound says that the store has no such object.
	ErrNotFound = errors.New("not found")
	// ErrTooLarge says that an object is too large to be read into memory.
	ErrTooLarge = errors.New("too large")
)

// CorruptError says that what is stored is not what was put.
type CorruptError struct {
	Path      string
	Check     string // what was compared
	Got, Want string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("objects: %s: %s: got %s, want %s; restore the file from a copy", e.Path, e.Check, e.Got, e.Want)
}

// Object describes one object.
type Object struct {
	Digest    godigest.Digest `json:"digest"` // sha256
	Size      int64           `json:"size"`   // bytes
	MediaType string          `json:"mediaType"`
	Public    bool            `json:"public"` // false: an export carries the digest only
}

// Store is a folder of objects.
type Store struct {
	root  string
	ready atomic.Bool // the root's own name is durable
}

// Open opens the store in a folder, which must exist; init makes it.
func Open(dir string) (*Store, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("objects: %w; check the path or run init", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("objects: %s is not a folder", dir)
	}
	return &Store{root: filepath.Join(dir, "sha256")}, nil
}

// prepare makes the root, once.
func (s *Store) prepare() error {
	if s.ready.Load() {
		return nil
	}
	if err := durable.MkdirAll(s.root, 0o755); err != nil {
		return err
	}
	s.ready.Store(true)
	return nil
}

func (s *Store) data(d godigest.Digest) string {
	return filepath.Join(s.root, d.Encoded()[:2], d.Encoded())
}

func (s *Store) sidecar(d godigest.Digest) string { return s.data(d) + ".json" }

// Put stores what r gives and returns its description. Bytes that are there
// already keep their media type, and become private if public is false: a
// private object is made public by [Store.Mark] alone.
func (s *Store) Put(ctx context.Context, mediaType string, public bool, r io.Reader) (Object, error) {
	if err := checkMediaType(mediaType); err != nil {
		return Object{}, err
	}
	if err := s.prepare(); err != nil {
		return Object{}, fmt.Errorf("objects: put: %w", err)
	}
	temp, err := durable.NewTemp(s.root)
	if err != nil {
		return Object{}, fmt.Errorf("objects: put: %w", err)
	}
	defer temp.Discard()
	digester := godigest.SHA256.Digester()
	size, err := io.Copy(io.MultiWriter(temp, digester.Hash()), reader{ctx, r})
	if err != nil {
		return Object{}, fmt.Errorf("objects: put: %w", err)
	}
	o := Object{Digest: digester.Digest(), Size: size, MediaType: mediaType, Public: public}
	if err := s.name(o, temp); err != nil {
		return Object{}, fmt.Errorf("objects: put %s: %w", o.Digest, err)
	}
	old, err := s.Stat(ctx, o.Digest)
	if err == nil {
		if old.Public && !public {
			return s.Mark(ctx, o.Digest, false)
		}
		// Whoever wrote both files may not have made their names durable yet.
		if err := durable.SyncDir(filepath.Dir(s.data(o.Digest))); err != nil {
			return Object{}, fmt.Errorf("objects: put %s: %w", o.Digest, err)
		}
		return old, nil
	}
	if !errors.Is(err, ErrNotFound) {
		return Object{}, err
	}
	if err := s.describe(o); err != nil {
		return Object{}, err
	}
	return o, nil
}

// name gives a finished temporary file its place. A file that is there already
// is compared: it is kept if it has the right bytes, else *CorruptError.
func (s *Store) name(o Object, temp *durable.Temp) error {
	path := s.data(o.Digest)
	if err := durable.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	err := temp.Create(path, 0o444)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	return s.checkData(o)
}

// Stat describes an object without reading it; [ErrNotFound].
func (s *Store) Stat(_ context.Context, d godigest.Digest) (Object, error) {
	if err := checkDigest(d); err != nil {
		return Object{}, err
	}
	return s.readSidecar(d)
}

// Mark makes an object public or private.
func (s *Store) Mark(ctx context.Context, d godigest.Digest, public bool) (Object, error) {
	o, err := s.Stat(ctx, d)
	if err != nil {
		return Object{}, err
	}
	if o.Public == public {
		return o, nil
	}
	o.Public = public
	return o, s.describe(o)
}

// reader stops at a cancelled context.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

func checkDigest(d godigest.Digest) error {
	if err := d.Validate(); err != nil || d.Algorithm() != godigest.SHA256 {
		return fmt.Errorf("objects: digest %.100q, want sha256: and 64 lower-case hexadecimal digits", string(d))
	}
	return nil
}

func checkMediaType(s string) error {
	if len(s) > MaxMediaTypeBytes {
		return fmt.Errorf("objects: media type of %d bytes, want at most %d", len(s), MaxMediaTypeBytes)
	}
	if _, _, err := mime.ParseMediaType(s); err != nil {
		return fmt.Errorf("objects: media type %q: %w; want one such as application/json", s, err)
	}
	return nil
}
