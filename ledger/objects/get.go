package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"

	godigest "github.com/opencontainers/go-digest"
)

// Get returns an object's bytes, at most MaxInMemory of them ([ErrTooLarge]),
// after their digest was compared: *[CorruptError] if they are others.
func (s *Store) Get(ctx context.Context, d godigest.Digest) ([]byte, Object, error) {
	r, o, err := s.Reader(ctx, d)
	if err != nil {
		return nil, Object{}, err
	}
	defer r.Close()
	if o.Size > MaxInMemory {
		return nil, Object{}, fmt.Errorf("objects: %s has %d bytes, want at most %d: %w; use Reader", d, o.Size, MaxInMemory, ErrTooLarge)
	}
	var b bytes.Buffer
	if _, err := io.Copy(&b, r); err != nil {
		return nil, Object{}, err
	}
	return b.Bytes(), o, nil
}

// Reader streams an object. The digest is compared at the end: bytes may be
// believed only after Read gave io.EOF. Other bytes end in a *[CorruptError].
func (s *Store) Reader(ctx context.Context, d godigest.Digest) (io.ReadCloser, Object, error) {
	o, err := s.Stat(ctx, d)
	if err != nil {
		return nil, Object{}, err
	}
	r, err := s.open(ctx, o)
	if err != nil {
		return nil, Object{}, err
	}
	return r, o, nil
}

func (s *Store) open(ctx context.Context, o Object) (*checked, error) {
	path := s.data(o.Digest)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &CorruptError{path, "file", "none", "the bytes that the description beside it names"}
	}
	if err != nil {
		return nil, fmt.Errorf("objects: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("objects: %s is not a file", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	if info.Size() != o.Size {
		f.Close()
		return nil, &CorruptError{path, "size", fmt.Sprintf("%d bytes", info.Size()), fmt.Sprintf("%d bytes", o.Size)}
	}
	return &checked{ctx: ctx, f: f, o: o, path: path, hash: godigest.SHA256.Hash(), left: o.Size}, nil
}

// checked hashes what it reads.
type checked struct {
	ctx  context.Context
	f    *os.File
	o    Object
	path string
	hash hash.Hash
	left int64
}

func (c *checked) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	if c.left == 0 {
		if got := godigest.NewDigest(godigest.SHA256, c.hash); got != c.o.Digest {
			return 0, &CorruptError{c.path, "digest", got.String(), c.o.Digest.String()}
		}
		return 0, io.EOF
	}
	n, err := c.f.Read(p[:min(int64(len(p)), c.left)])
	c.hash.Write(p[:n])
	c.left -= int64(n)
	if errors.Is(err, io.EOF) {
		err = &CorruptError{c.path, "size", fmt.Sprintf("an end %d bytes early", c.left), fmt.Sprintf("%d bytes", c.o.Size)}
	}
	return n, err
}

func (c *checked) Close() error { return c.f.Close() }

// checkData compares the stored bytes with a description.
func (s *Store) checkData(o Object) error {
	r, err := s.open(context.Background(), o)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(io.Discard, r)
	return err
}
