package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels/digest"
)

// Get fills partial, a file here, with exactly the accepted bytes, which the
// file source at the other end has. It hashes the whole remote file before and
// after, and the whole local one. What a cut left here is gone on from where it
// is a prefix of the remote file; otherwise it is moved aside, to a candidate's
// name beside dest. On success partial is durable and read-only, without its name.
func (c *Conn) Get(ctx context.Context, source string, want godigest.Digest, partial, dest, via string, tell func(done, total int64)) (t Transfer, size int64, err error) {
	before, err := c.regular(ctx, source)
	if err != nil {
		return t, 0, err
	}
	if before == nil {
		return t, 0, fmt.Errorf("%s: %s: no such file there", c.at, source)
	}
	size = before.Size()
	first, _, err := c.Sum(ctx, source, size)
	if err != nil {
		return t, size, err
	}
	if first != want {
		return t, size, &OtherBytesError{c.at.String(), source, first, want, "the other machine has other bytes than those that were accepted; nothing was fetched"}
	}
	dst, err := OpenPartial(partial)
	if err != nil {
		return t, size, err
	}
	if t.Resumed, err = c.localPrefix(ctx, source, size, dst); err != nil {
		return t, size, errors.Join(err, dst.Close())
	}
	if t.Resumed == 0 {
		if dst, t.Kept, err = emptied(dst, partial, dest); err != nil {
			return t, size, err
		}
	}
	if via == Rsync {
		err = c.rsyncGet(ctx, source, partial)
	} else {
		err = c.receive(ctx, source, size, dst, t.Resumed, tell)
	}
	if err = errors.Join(err, seal(dst, err)); err != nil {
		return t, size, err
	}
	return t, size, c.settle(ctx, source, before, want, partial, dest, &t)
}

// settle holds both ends against what was accepted. A partial file that does
// not hold is kept as a candidate.
func (c *Conn) settle(ctx context.Context, source string, before fs.FileInfo, want godigest.Digest, partial, dest string, t *Transfer) error {
	check := func() error {
		st, err := os.Stat(partial)
		if err != nil {
			return err
		}
		if t.Local, err = localSum(ctx, partial, st.Size()); err != nil {
			return err
		}
		if err := c.unchanged(ctx, source, before); err != nil {
			return err
		}
		if t.Remote, t.RemoteBy, err = c.Sum(ctx, source, before.Size()); err != nil {
			return err
		}
		if t.Remote != want {
			return &ChangedError{c.at.String() + ": " + source, "digest", want.String(), t.Remote.String()}
		}
		if t.Local != want {
			return &OtherBytesError{partial, "what arrived", t.Local, want, "they are not those that were accepted"}
		}
		return nil
	}
	err := check()
	var changed *ChangedError
	var other *OtherBytesError
	if err == nil || (!errors.As(err, &changed) && !errors.As(err, &other)) {
		return err
	}
	kept, aside := Aside(partial, dest)
	return errors.Join(fmt.Errorf("%w; what arrived is kept as %s", err, kept), aside)
}

// receive reads the remote file from an offset on.
func (c *Conn) receive(ctx context.Context, source string, size int64, dst *os.File, from int64, tell func(done, total int64)) error {
	f, err := c.sftp.Open(source)
	if err != nil {
		return c.failed(ctx, "open "+source, err)
	}
	defer f.Close()
	if _, err := dst.Seek(from, 0); err != nil {
		return err
	}
	to := &stopping{ctx: ctx, w: dst, done: from}
	if tell != nil {
		to.tell = func(done int64) { tell(done, size) }
	}
	return c.read(ctx, f, from, size-from, to)
}

// localPrefix is the length of dst where all of it is a prefix of the remote file, else 0.
func (c *Conn) localPrefix(ctx context.Context, source string, size int64, dst *os.File) (int64, error) {
	st, err := dst.Stat()
	if err != nil || st.Size() == 0 || st.Size() > size {
		return 0, err
	}
	have, err := digest.SHA256(ctx, dst, st.Size())
	if err != nil {
		return 0, err
	}
	want, _, err := c.Sum(ctx, source, st.Size())
	if err != nil || have != want {
		return 0, err
	}
	return st.Size(), nil
}

// OpenPartial opens a partial file here for reading and writing, and makes it
// if there is none. Something else than a regular file is an error.
func OpenPartial(partial string) (*os.File, error) {
	switch st, err := os.Lstat(partial); {
	case err == nil && !st.Mode().IsRegular():
		return nil, fmt.Errorf("%s: %w", partial, errNoRegular)
	case err == nil && st.Mode().Perm()&0o200 == 0:
		if err := os.Chmod(partial, 0o644); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(partial, os.O_RDWR|os.O_CREATE, 0o644)
}

// emptied moves a file with bytes aside and opens a new one in its place.
func emptied(f *os.File, partial, dest string) (*os.File, string, error) {
	st, err := f.Stat()
	if err != nil || st.Size() == 0 {
		return f, "", err
	}
	if err := f.Close(); err != nil {
		return nil, "", err
	}
	kept, err := Aside(partial, dest)
	if err != nil {
		return nil, "", err
	}
	f, err = OpenPartial(partial)
	return f, kept, err
}

// seal closes a partial file; one that is whole is made read-only and durable first.
func seal(f *os.File, failed error) error {
	if failed == nil {
		failed = errors.Join(f.Chmod(0o444), f.Sync())
	} else {
		failed = nil
	}
	return errors.Join(failed, f.Close())
}

// Aside moves a file here to the first free candidate's name of dest, and returns that.
func Aside(partial, dest string) (string, error) {
	for n := 1; n <= maxCandidates; n++ {
		name := fmt.Sprintf("%s%s%d", dest, candidateSuffix, n)
		if _, err := os.Lstat(name); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return partial, err
		}
		if err := os.Rename(partial, name); err != nil {
			return partial, err
		}
		return name, nil
	}
	return partial, fmt.Errorf("%s: %d candidates lie beside it; remove some", dest, maxCandidates)
}

// localSum is the SHA-256 of the first n bytes of a file here. Fewer are an error.
func localSum(ctx context.Context, path string, n int64) (godigest.Digest, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return digest.SHA256(ctx, f, n)
}
