package folder

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
)

// step is the number of bytes of each side that a comparison holds.
const step = 1 << 17

// FirstDifference gives the offset in bytes of the first byte that differs, or
// at which one of the two ends; -1 for none.
func FirstDifference(ctx context.Context, a, b io.Reader) (int64, error) {
	x, y := make([]byte, step), make([]byte, step)
	for offset := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return -1, err
		}
		n, err := io.ReadFull(a, x)
		m, other := io.ReadFull(b, y)
		for i := range min(n, m) {
			if x[i] != y[i] {
				return offset + int64(i), nil
			}
		}
		for _, err := range []error{err, other} {
			if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				return -1, fmt.Errorf("folder: read: %w", err)
			}
		}
		offset += int64(min(n, m))
		if n != m {
			return offset, nil
		}
		if err != nil {
			return -1, nil
		}
	}
}

// AddInputs adds the files of a source and of the folder made from it that
// match, by content, to a report.
func AddInputs(ctx context.Context, rep *kernels.Report, source, product fs.FS, match func(name string) bool) error {
	if err := addInputs(ctx, rep, "source", source, match); err != nil {
		return err
	}
	return addInputs(ctx, rep, "folder", product, match)
}

func addInputs(ctx context.Context, rep *kernels.Report, side string, fsys fs.FS, match func(name string) bool) error {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return fmt.Errorf("folder: %s: %w", side, err)
	}
	for _, e := range entries {
		if !match(e.Name()) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		f, err := fsys.Open(e.Name())
		if err != nil {
			return fmt.Errorf("folder: %s: %w", side, err)
		}
		h := sha256.New()
		n, err := io.Copy(h, f)
		f.Close()
		if err != nil {
			return fmt.Errorf("folder: %s: %s: %w", side, e.Name(), err)
		}
		rep.Inputs = append(rep.Inputs, kernels.Input{Name: side + "/" + e.Name(), Digest: godigest.NewDigest(godigest.SHA256, h), Size: n})
	}
	return nil
}
