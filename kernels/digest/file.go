package digest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"

	godigest "github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"
)

var blocks = sync.Pool{New: func() any { return new([blockSize]byte) }}

// each reads exactly size bytes and hands them on block by block. Fewer or
// more are a [*SizeError].
func each(ctx context.Context, r io.Reader, size int64, hash io.Writer) error {
	block := blocks.Get().(*[blockSize]byte)
	defer blocks.Put(block)
	for n := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		// At the end one byte more is asked for, to see that there is none.
		want := min(max(size-n, 1), blockSize)
		got, err := io.ReadFull(r, block[:want])
		ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		switch {
		case err != nil && !ended:
			return fmt.Errorf("digest: read at byte %d: %w", n+int64(got), err)
		case n+int64(got) > size:
			return &SizeError{Got: n + int64(got), Want: size}
		}
		if _, err := hash.Write(block[:got]); err != nil {
			return err
		}
		n += int64(got)
		switch {
		case ended && n == size:
			return nil
		case ended:
			return &SizeError{Got: n, Want: size}
		}
	}
}

// Reader computes the sums of exactly size bytes, in one pass. A reader that
// has fewer or more is a [*SizeError].
func Reader(ctx context.Context, r io.Reader, size int64) (Sums, error) {
	h := NewHasher(size)
	if err := each(ctx, r, size, h); err != nil {
		return Sums{}, err
	}
	return h.Sums(), nil
}

// SHA256 computes the SHA-256 of the first size bytes of r, for those who do
// not need git's id. A reader that has fewer is a [*SizeError].
func SHA256(ctx context.Context, r io.ReaderAt, size int64) (godigest.Digest, error) {
	h := sha256.New()
	if err := each(ctx, io.NewSectionReader(r, 0, size), size, h); err != nil {
		return "", err
	}
	return godigest.NewDigest(godigest.SHA256, h), nil
}

// File computes the sums of a regular file. It refuses anything else (a pipe
// would never end) and a file that changes while it is read.
func File(ctx context.Context, path string) (Sums, error) {
	return file(ctx, path, func() (os.FileInfo, error) { return os.Stat(path) }, func() (*os.File, error) { return os.Open(path) })
}

// file is File over any way to look at and to open the name.
func file(ctx context.Context, name string, stat func() (os.FileInfo, error), open func() (*os.File, error)) (Sums, error) {
	before, err := stat() // before opening: to open a pipe waits for its writer
	if err != nil {
		return Sums{}, fmt.Errorf("digest: %w", err)
	}
	if !before.Mode().IsRegular() {
		return Sums{}, fmt.Errorf("digest: %s: got %s, want a regular file", name, before.Mode().Type())
	}
	f, err := open()
	if err != nil {
		return Sums{}, fmt.Errorf("digest: %w", err)
	}
	defer f.Close()
	opened, err := f.Stat()
	if err != nil {
		return Sums{}, fmt.Errorf("digest: %w", err)
	}
	if !os.SameFile(before, opened) {
		return Sums{}, fmt.Errorf("digest: %s: another file took its place while it was opened; try again when nobody writes it", name)
	}
	sums, err := Reader(ctx, f, opened.Size())
	var size *SizeError
	if errors.As(err, &size) {
		size.Name = name
		return Sums{}, fmt.Errorf("%w: it changed while it was read; try again when nobody writes it", err)
	}
	if err != nil {
		return Sums{}, fmt.Errorf("%s: %w", name, err)
	}
	after, err := f.Stat()
	if err != nil {
		return Sums{}, fmt.Errorf("digest: %w", err)
	}
	if after.Size() != opened.Size() || !after.ModTime().Equal(opened.ModTime()) {
		return Sums{}, fmt.Errorf("digest: %s: it changed while it was read (%d bytes, then %d); try again when nobody writes it", name, opened.Size(), after.Size())
	}
	return sums, nil
}

// Files computes the sums of several files in parallel, in the order of paths.
// Fewer than one worker means one a processor. The first error stops the rest.
func Files(ctx context.Context, paths []string, workers int) ([]Sums, error) {
	return all(ctx, paths, workers, File)
}

func all(ctx context.Context, names []string, workers int, sum func(context.Context, string) (Sums, error)) ([]Sums, error) {
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	out := make([]Sums, len(names))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for i, name := range names {
		g.Go(func() (err error) {
			out[i], err = sum(ctx, name)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}
