package objects

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/ledger/internal/durable"
)

// List goes through the descriptions of all objects, ordered by digest, and
// stops at the first error. It does not read the bytes.
func (s *Store) List(ctx context.Context) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		for path, err := range s.files(ctx) {
			if err != nil {
				yield(Object{}, err)
				return
			}
			name, ok := strings.CutSuffix(filepath.Base(path), ".json")
			if !ok {
				continue
			}
			d := godigest.NewDigestFromEncoded(godigest.SHA256, name)
			o, err := s.Stat(ctx, d)
			if !yield(o, err) || err != nil {
				return
			}
		}
	}
}

// Check reads every object and compares it with its digest, looks for files
// that do not belong there, and looks for the wanted objects, which bundles
// name. It returns what does not hold; an error says that it could not look.
func (s *Store) Check(ctx context.Context, wanted ...godigest.Digest) ([]*CorruptError, error) {
	var found []*CorruptError
	add := func(err error) error {
		var corrupt *CorruptError
		if errors.As(err, &corrupt) {
			found = append(found, corrupt)
			return nil
		}
		return err
	}
	for path, err := range s.files(ctx) {
		if err != nil {
			return found, err
		}
		name, described := strings.CutSuffix(filepath.Base(path), ".json")
		d := godigest.NewDigestFromEncoded(godigest.SHA256, name)
		if d.Validate() != nil || s.data(d) != strings.TrimSuffix(path, ".json") {
			found = append(found, &CorruptError{path, "name", "a name or place that no object has", "sha256/ab/<hexadecimal digits>"})
			continue
		}
		if described {
			if err := add(s.checkObject(ctx, d)); err != nil {
				return found, err
			}
		}
	}
	for _, d := range wanted {
		_, err := s.Stat(ctx, d)
		if errors.Is(err, ErrNotFound) {
			err = &CorruptError{s.data(d), "file", "none", "an object that a bundle names"}
		}
		if err := add(err); err != nil {
			return found, err
		}
	}
	return found, nil
}

func (s *Store) checkObject(ctx context.Context, d godigest.Digest) error {
	o, err := s.Stat(ctx, d)
	if err != nil {
		return err
	}
	return s.checkData(o)
}

// files goes through all finished files below the root, in order.
func (s *Store) files(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		folders, err := os.ReadDir(s.root)
		if errors.Is(err, fs.ErrNotExist) {
			return // nothing was put yet
		}
		if err != nil {
			yield("", fmt.Errorf("objects: %w", err))
			return
		}
		for _, folder := range folders {
			path := filepath.Join(s.root, folder.Name())
			if !folder.IsDir() {
				if !durable.Unfinished(folder.Name()) && !yield(path, nil) {
					return
				}
				continue
			}
			if !s.filesIn(ctx, path, yield) {
				return
			}
		}
	}
}

func (s *Store) filesIn(ctx context.Context, folder string, yield func(string, error) bool) bool {
	files, err := os.ReadDir(folder)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		yield("", fmt.Errorf("objects: %w", err))
		return false
	}
	for _, f := range files {
		if !durable.Unfinished(f.Name()) && !yield(filepath.Join(folder, f.Name()), nil) {
			return false
		}
	}
	return true
}
