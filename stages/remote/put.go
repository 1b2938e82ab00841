package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/pkg/sftp"

	godigest "github.com/opencontainers/go-digest"
)

const (
	packet = 32 << 10 // bytes of one SFTP request, which every server takes
	// window is how many bytes are on their way at a time. What a cut leaves is
	// whole except for the last window, which may have holes.
	window = 4 << 20

	partialSuffix   = ".partial"
	candidateSuffix = ".candidate-"
	maxCandidates   = 1000
)

// How the bytes go.
const (
	SFTP  = "sftp"
	Rsync = "rsync"
)

// File is a file on this machine whose bytes were accepted.
type File struct {
	Path   string
	Size   int64 // bytes
	Digest godigest.Digest
}

// Transfer is what a transfer did.
type Transfer struct {
	Resumed  int64           // bytes that were there already
	Local    godigest.Digest // of all bytes here, read after the transfer
	Remote   godigest.Digest // of all bytes at the other end, taken after the transfer
	RemoteBy string          // how
	Kept     string          // where bytes lie that were there and are others; empty if none were
}

// OtherBytesError says that some end has other bytes than those that were accepted.
type OtherBytesError struct {
	Where, What string
	Got, Want   godigest.Digest
	Hint        string
}

func (e *OtherBytesError) Error() string {
	return fmt.Sprintf("%s: %s: got %s, want %s; %s", e.Where, e.What, e.Got, e.Want, e.Hint)
}

// ChangedError says that a file at the other end changed during a transfer.
type ChangedError struct{ Where, What, Before, After string }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%s: it changed during the transfer: its %s was %s and is %s; nothing may write to it while it is delivered", e.Where, e.What, e.Before, e.After)
}

// Put makes dest, a new file at the other end, hold exactly the bytes of a file
// here, by [SFTP] or [Rsync]. What a cut left there is gone on from where it is
// a prefix of the file; otherwise it is moved aside. The file gets its name
// when it is durable (where the server has fsync@openssh.com), read-only, and
// all of its bytes were hashed there; never over another file.
func (c *Conn) Put(ctx context.Context, file File, dest, via string, tell func(done, total int64)) (t Transfer, err error) {
	if err := c.sftp.MkdirAll(path.Dir(dest)); err != nil {
		return t, c.failed(ctx, "make the folder "+path.Dir(dest), err)
	}
	there, err := c.regular(ctx, dest)
	if err != nil {
		return t, err
	}
	if there != nil {
		return c.alreadyThere(ctx, file, dest, there)
	}
	partial := dest + partialSuffix
	if t.Resumed, t.Kept, err = c.prefix(ctx, file, partial); err != nil {
		return t, err
	}
	if via == Rsync {
		err = c.rsyncPut(ctx, file, partial)
	} else {
		err = c.send(ctx, file, partial, t.Resumed, tell)
	}
	if err != nil {
		return t, err
	}
	before, err := c.finish(ctx, partial)
	if err != nil {
		return t, err
	}
	if t.Remote, t.RemoteBy, err = c.Sum(ctx, partial, before.Size()); err != nil {
		return t, err
	}
	if t.Remote != file.Digest || before.Size() != file.Size {
		kept, aside := c.aside(ctx, partial, dest)
		return t, errors.Join(&OtherBytesError{c.at.String(), partial, t.Remote, file.Digest, "they are not those that were accepted; they are kept as " + kept}, aside)
	}
	if err := c.unchanged(ctx, partial, before); err != nil {
		kept, aside := c.aside(ctx, partial, dest)
		return t, errors.Join(fmt.Errorf("%w; the bytes are kept as %s", err, kept), aside)
	}
	// SFTP's own rename refuses a name that is taken, unlike posix-rename.
	if err := c.sftp.Rename(partial, dest); err != nil {
		return t, c.failed(ctx, "give "+partial+" its name (which may be taken by now)", err)
	}
	if err := c.unchanged(ctx, dest, before); err != nil {
		return t, err
	}
	t.Local, err = localSum(ctx, file.Path, file.Size)
	return t, err
}

// alreadyThere holds the whole file against the one that is there.
func (c *Conn) alreadyThere(ctx context.Context, file File, dest string, there fs.FileInfo) (t Transfer, err error) {
	if t.Remote, t.RemoteBy, err = c.Sum(ctx, dest, there.Size()); err != nil {
		return t, err
	}
	if t.Remote != file.Digest {
		return t, &OtherBytesError{c.at.String(), dest, t.Remote, file.Digest, "a different file is already delivered under this name; it is never written over: move it away or deliver to another folder"}
	}
	if err := c.unchanged(ctx, dest, there); err != nil {
		return t, err
	}
	t.Resumed = file.Size
	t.Local, err = localSum(ctx, file.Path, file.Size)
	return t, err
}

// prefix finds how much of a partial file at the other end is a prefix of the
// file: all of it, or all but the last window of a cut. Anything else is moved aside.
func (c *Conn) prefix(ctx context.Context, file File, partial string) (n int64, kept string, err error) {
	there, err := c.regular(ctx, partial)
	if err != nil || there == nil {
		return 0, "", err
	}
	if err := c.sftp.Chmod(partial, 0o644); err != nil {
		return 0, "", c.failed(ctx, "make "+partial+" writable", err)
	}
	for _, n := range []int64{there.Size(), there.Size() - window} {
		if n <= 0 || n > file.Size {
			continue
		}
		got, _, err := c.Sum(ctx, partial, n)
		if err != nil {
			return 0, "", err
		}
		want, err := localSum(ctx, file.Path, n)
		if err != nil {
			return 0, "", err
		}
		if got != want {
			continue
		}
		if n < there.Size() {
			if err := c.sftp.Truncate(partial, n); err != nil {
				return 0, "", c.failed(ctx, "cut "+partial+" back to what is whole", err)
			}
		}
		return n, "", nil
	}
	if there.Size() == 0 {
		return 0, "", nil
	}
	kept, err = c.aside(ctx, partial, path.Join(path.Dir(partial), trimPartial(partial)))
	return 0, kept, err
}

func trimPartial(partial string) string {
	name := path.Base(partial)
	return name[:len(name)-len(partialSuffix)]
}

// send writes the file from an offset on, a window at a time.
func (c *Conn) send(ctx context.Context, file File, partial string, from int64, tell func(done, total int64)) (err error) {
	src, err := os.Open(file.Path)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := c.sftp.OpenFile(partial, os.O_WRONLY|os.O_CREATE)
	if err != nil {
		return c.failed(ctx, "open "+partial, err)
	}
	defer func() {
		if cut := dst.Close(); cut != nil && err == nil {
			err = c.failed(ctx, "close "+partial, cut)
		}
	}()
	buf := make([]byte, min(window, max(file.Size-from, 1)))
	for at := from; at < file.Size; {
		if err := ctx.Err(); err != nil {
			return c.failed(ctx, "send to "+partial, err)
		}
		n, err := src.ReadAt(buf[:min(int64(len(buf)), file.Size-at)], at)
		if n == 0 {
			return fmt.Errorf("%s: it ends at byte %d, want %d: %w", filepath.Base(file.Path), at, file.Size, err)
		}
		if _, err := dst.WriteAt(buf[:n], at); err != nil {
			return c.failed(ctx, fmt.Sprintf("send to %s, at byte %d of %d (what arrived is kept; run again to go on)", partial, at, file.Size), err)
		}
		at += int64(n)
		if tell != nil {
			tell(at, file.Size)
		}
	}
	return nil
}

// finish makes a file at the other end read-only and, where the server can, durable.
func (c *Conn) finish(ctx context.Context, partial string) (fs.FileInfo, error) {
	f, err := c.sftp.OpenFile(partial, os.O_WRONLY)
	if err != nil {
		return nil, c.failed(ctx, "open "+partial, err)
	}
	defer f.Close()
	if err := c.sftp.Chmod(partial, 0o444); err != nil {
		return nil, c.failed(ctx, "make "+partial+" read-only", err)
	}
	if version, has := c.sftp.HasExtension("fsync@openssh.com"); has && version == "1" {
		if err := f.Sync(); err != nil {
			return nil, c.failed(ctx, "make "+partial+" durable", err)
		}
	}
	info, err := c.regular(ctx, partial)
	if err == nil && info == nil {
		err = fmt.Errorf("%s: %s is gone", c.at, partial)
	}
	return info, err
}

// regular describes a file at the other end; nil if there is none.
func (c *Conn) regular(ctx context.Context, name string) (fs.FileInfo, error) {
	info, err := c.sftp.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, c.failed(ctx, "look at "+name, err)
	case !info.Mode().IsRegular() || info.Size() < 0:
		return nil, fmt.Errorf("%s: %s: %w", c.at, name, errNoRegular)
	}
	return info, nil
}

// unchanged wants a file's size and time of change to be as they were.
func (c *Conn) unchanged(ctx context.Context, name string, before fs.FileInfo) error {
	after, err := c.regular(ctx, name)
	if err != nil {
		return err
	}
	where := c.at.String() + ": " + name
	switch {
	case after == nil:
		return &ChangedError{where, "name", "there", "gone"}
	case after.Size() != before.Size():
		return &ChangedError{where, "size", fmt.Sprint(before.Size()), fmt.Sprint(after.Size())}
	case !after.ModTime().Equal(before.ModTime()):
		return &ChangedError{where, "time of change", before.ModTime().UTC().String(), after.ModTime().UTC().String()}
	}
	return nil
}

// aside moves a file at the other end to a free name, and returns that.
func (c *Conn) aside(ctx context.Context, partial, dest string) (string, error) {
	for n := 1; n <= maxCandidates; n++ {
		name := fmt.Sprintf("%s%s%d", dest, candidateSuffix, n)
		if _, err := c.sftp.Lstat(name); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", c.failed(ctx, "look at "+name, err)
		}
		if err := c.sftp.Rename(partial, name); err != nil {
			return partial, c.failed(ctx, "move "+partial+" aside", err)
		}
		return name, nil
	}
	return partial, fmt.Errorf("%s: %s: %d candidates lie beside it; remove some", c.at, dest, maxCandidates)
}

// read reads bytes from an offset on, a window at a time.
func (c *Conn) read(ctx context.Context, f *sftp.File, from, n int64, to io.Writer) error {
	buf := make([]byte, min(window, max(n, 1)))
	for at := from; at < from+n; {
		if err := ctx.Err(); err != nil {
			return c.failed(ctx, "read "+f.Name(), err)
		}
		got, err := f.ReadAt(buf[:min(int64(len(buf)), from+n-at)], at)
		if got > 0 {
			if _, err := to.Write(buf[:got]); err != nil {
				return err
			}
			at += int64(got)
			continue
		}
		if errors.Is(err, io.EOF) {
			return &ChangedError{c.at.String() + ": " + f.Name(), "size", fmt.Sprintf("at least %d", from+n), fmt.Sprint(at)}
		}
		return c.failed(ctx, fmt.Sprintf("read %s, at byte %d of %d (what arrived is kept; run again to go on)", f.Name(), at, from+n), err)
	}
	return nil
}
