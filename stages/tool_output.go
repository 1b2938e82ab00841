package stages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weighmaster/weighmaster/schemas"
)

// partialName is what a tool writes; the stage gives it its name when it was found good.
func partialName(file string) string { return file + ".partial" }

// refuseExisting turns down a name that is taken before the tool runs.
func refuseExisting(run *Run, file string) error {
	for _, name := range []string{file, partialName(file)} {
		path := filepath.Join(run.Dir, name)
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return existing(path, err)
		}
	}
	return nil
}

// takeOutput finishes what a tool wrote as <file>.partial: it must be a regular
// file with no other name, and check, which gets it open, must find it good. It
// is then fsynced, hashed, made 0444 and renamed, and its folder fsynced. In
// every other case the partial file stays as it is and the outcome says failed.
func takeOutput(ctx context.Context, run *Run, file string, out *Outcome, failure string, check func(f *os.File, size int64) error) error {
	partial := filepath.Join(run.Dir, partialName(file))
	if failure == "" {
		if err := ownFile(partial); err != nil {
			failure = "the command ended with 0, but " + err.Error()
		}
	}
	if failure != "" {
		out.fail(failure)
		return nil
	}
	f, err := openOwn(partial)
	if err != nil {
		out.fail(err.Error())
		return nil
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if err := check(f, st.Size()); err != nil {
		out.fail(fmt.Sprintf("the command ended with 0, but %s is not what was asked for: %v", filepath.Base(partial), err))
		return nil
	}
	if err := finish(f); err != nil {
		return fmt.Errorf("output %s: %w", file, err)
	}
	before, err := stampOf(partial)
	if err != nil {
		return err
	}
	made, err := readFile(ctx, file, partial)
	if err != nil {
		return err
	}
	if after, err := stampOf(partial); err != nil || after != before {
		return errors.Join(err, fmt.Errorf("output %s changed while it was hashed; something still writes it", file))
	}
	made.Path = filepath.Join(run.Dir, file)
	if err := publish(partial, made.Path); err != nil {
		return fmt.Errorf("output %s: %w", file, err)
	}
	artifact := FileArtifact(made)
	out.Output, out.Verdict = &artifact, schemas.Passed
	return nil
}

// ownFile refuses what is no regular file with one name: a link would lead to, or change, other bytes.
func ownFile(path string) error {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("it made no %s", filepath.Base(path))
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file: got %s", filepath.Base(path), st.Mode().Type())
	case linkCount(st) != 1:
		return fmt.Errorf("%s has %d names, want one: it is linked to another file", filepath.Base(path), linkCount(st))
	}
	return nil
}

// openOwn opens what ownFile found good, and nothing that was put in its place since.
func openOwn(path string) (*os.File, error) {
	if err := ownFile(path); err != nil {
		return nil, err
	}
	before, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil || !os.SameFile(before, st) {
		return nil, errors.Join(err, fmt.Errorf("%s was replaced while it was opened", filepath.Base(path)), f.Close())
	}
	return f, nil
}
