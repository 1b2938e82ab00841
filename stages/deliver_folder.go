package stages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels/digest"
)

// deliverTo makes dest hold exactly the artifact's bytes. It returns how many
// were there already. The whole destination is hashed after it was made durable
// and before it gets its name.
func deliverTo(ctx context.Context, run *Run, a Artifact, dest string) (resumed int64, err error) {
	size := a.Files[0].Sums.Size
	if err := os.MkdirAll(filepath.Dir(dest), 0o755); err != nil {
		return 0, err
	}
	if st, err := os.Lstat(dest); err == nil {
		if !st.Mode().IsRegular() {
			return 0, fmt.Errorf("%s: there is something else than a file; move it away", dest)
		}
		return size, sameBytes(ctx, dest, a.Digest, "a different file is already delivered under this name; it is never written over: move it away or deliver under another name")
	}
	partial := dest + ".partial"
	resumed, err = copyOnto(ctx, run, a.Path, partial)
	if err != nil {
		return resumed, fmt.Errorf("deliver %s: %w", filepath.Base(dest), err)
	}
	if err := sameBytes(ctx, partial, a.Digest, "the bytes at the destination are not those that were accepted; the partial file is kept"); err != nil {
		return resumed, err
	}
	return resumed, publish(partial, dest)
}

func sameBytes(ctx context.Context, path string, want godigest.Digest, hint string) error {
	sums, err := digest.File(ctx, path)
	if err != nil {
		return err
	}
	if sums.SHA256 != want {
		return fmt.Errorf("%s: got %s, want %s; %s", path, sums.SHA256, want, hint)
	}
	return nil
}

// copyOnto copies source to partial, onto what is there if that is a prefix of the source.
func copyOnto(ctx context.Context, run *Run, source, partial string) (from int64, err error) {
	src, err := os.Open(source)
	if err != nil {
		return 0, err
	}
	defer src.Close()
	st, err := src.Stat()
	if err != nil {
		return 0, err
	}
	if p, err := os.Lstat(partial); err == nil && !p.Mode().IsRegular() {
		return 0, fmt.Errorf("%s: not a regular file; move it away", partial)
	} else if err == nil && p.Mode().Perm()&0o200 == 0 {
		if err := os.Chmod(partial, 0o644); err != nil {
			return 0, err
		}
	}
	dst, err := os.OpenFile(partial, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if from, err = prefixOf(ctx, dst, src, st.Size()); err != nil {
		return 0, err
	}
	if err := dst.Truncate(from); err != nil {
		return from, err
	}
	for _, f := range []*os.File{src, dst} {
		if _, err := f.Seek(from, io.SeekStart); err != nil {
			return from, err
		}
	}
	w := &progressWriter{ctx: ctx, w: dst, run: run, what: "delivering", done: from, total: st.Size()}
	if _, err := io.Copy(w, src); err != nil {
		return from, err
	}
	return from, finish(dst)
}

// prefixOf returns the length of dst where all of it is a prefix of src, else 0.
func prefixOf(ctx context.Context, dst, src *os.File, size int64) (int64, error) {
	st, err := dst.Stat()
	if err != nil || st.Size() == 0 || st.Size() > size {
		return 0, err
	}
	have, err := digest.SHA256(ctx, dst, st.Size())
	if err != nil {
		return 0, err
	}
	want, err := digest.SHA256(ctx, io.NewSectionReader(src, 0, st.Size()), st.Size())
	if err != nil || have != want {
		return 0, err
	}
	return st.Size(), nil
}
