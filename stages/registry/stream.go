package registry

import (
	"context"
	"fmt"
	"io"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// stream reads a blob from its start to its end. Where the connection is cut it
// asks for the rest, as long as each try brings bytes: what was read before came
// from this very run and is in its hash. The caller holds all of it against a digest.
type stream struct {
	r     *Repo
	layer ocispec.Descriptor
	body  io.ReadCloser
	at    int64 // bytes read
	cuts  int   // connections that ended early and were gone on with
}

// maxIdleTries is how many tries in a row may bring nothing.
const maxIdleTries = 3

const streamBuffer = 1 << 20 // bytes

func (s *stream) close() {
	if s.body != nil {
		_ = s.body.Close()
		s.body = nil
	}
}

// open asks for the blob from where the last connection ended.
func (s *stream) open(ctx context.Context) error {
	s.close()
	body, err := s.r.repo.Blobs().Fetch(ctx, s.layer)
	if err != nil {
		return err
	}
	if s.at > 0 {
		if seeker, ok := body.(io.Seeker); ok {
			_, err = seeker.Seek(s.at, io.SeekStart) // a range request; any answer but 206 is an error
		} else {
			_, err = io.CopyN(io.Discard, body, s.at)
		}
		if err != nil {
			_ = body.Close()
			return err
		}
	}
	s.body = body
	return nil
}

// copyTo copies the blob's bytes, at most as many as its descriptor says.
func (s *stream) copyTo(ctx context.Context, w io.Writer, tell func(done, total int64)) (int64, error) {
	buf := make([]byte, streamBuffer)
	idle := 0
	for s.at < s.layer.Size {
		if err := ctx.Err(); err != nil {
			return s.at, err
		}
		var n int
		var err error
		if s.body == nil {
			err = s.open(ctx)
		}
		if err == nil {
			n, err = s.body.Read(buf[:min(int64(len(buf)), s.layer.Size-s.at)])
		}
		if n > 0 {
			idle = 0
			s.at += int64(n)
			if _, err := w.Write(buf[:n]); err != nil {
				return s.at, err
			}
			if tell != nil {
				tell(s.at, s.layer.Size)
			}
		}
		if err == nil || s.at == s.layer.Size {
			continue
		}
		s.close()
		if idle++; idle > maxIdleTries || ctx.Err() != nil {
			return s.at, fmt.Errorf("%s: fetch %s, at byte %d of %d (what arrived is kept): %w", s.r.address, s.layer.Digest, s.at, s.layer.Size, err)
		}
		s.cuts++
	}
	return s.at, nil
}
