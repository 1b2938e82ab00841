package stages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/remote"
)

// dial connects to the machine of an address.
func (d *delivery) dial(ctx context.Context, address string) (*remote.Conn, remote.Location, error) {
	at, err := remote.Parse(address)
	if err != nil {
		return nil, at, err
	}
	opt := remote.Options{}
	if d.with.Config != "" {
		opt.Config = below(d.run.Project, d.with.Config)
	}
	c, err := remote.Dial(ctx, at, opt)
	if err != nil {
		return nil, at, err
	}
	if err := d.program(ctx, "ssh", c.Program()); err != nil {
		return nil, at, errors.Join(err, c.Close())
	}
	if d.via() == remote.Rsync {
		path, err := exec.LookPath("rsync")
		if err == nil {
			err = d.program(ctx, "rsync", path)
		}
		if err != nil {
			return nil, at, errors.Join(err, c.Close())
		}
	}
	return c, at, nil
}

// program notes the digest of a program that carries the bytes.
func (d *delivery) program(ctx context.Context, name, path string) error {
	sums, err := digest.File(ctx, path)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	d.out.Internal[name] = sums.SHA256.String()
	return nil
}

func (d *delivery) via() string {
	if d.with.Via == "" {
		return remote.SFTP
	}
	return d.with.Via
}

// toMachine delivers into a folder of another machine.
func (d *delivery) toMachine(ctx context.Context) error {
	c, at, err := d.dial(ctx, d.with.To)
	if err != nil {
		return err
	}
	defer c.Close()
	file := remote.File{Path: d.file.Path, Size: d.file.Files[0].Sums.Size, Digest: d.file.Digest}
	t, err := c.Put(ctx, file, at.Join(d.name).Path, d.via(), d.progress("delivering"))
	if err != nil {
		return fmt.Errorf("deliver %s: %w", d.name, err)
	}
	if err := d.agree(t.Local, t.Remote, t.RemoteBy, d.via()); err != nil {
		return err
	}
	d.kept(t.Kept)
	d.left(t.Resumed)
	return nil
}

// agree notes the complete digests of both ends, and wants both to be the accepted one.
func (d *delivery) agree(local, other godigest.Digest, by, via string) error {
	d.fact(schemas.FactVia, via)
	d.fact(schemas.FactLocalDigest, local.String())
	d.fact(schemas.FactRemoteDigest, other.String())
	d.fact(schemas.FactRemoteDigestBy, by)
	if local != d.file.Digest || other != d.file.Digest {
		return fmt.Errorf("deliver %s: here %s, at the other end %s, want %s at both", d.name, local, other, d.file.Digest)
	}
	return nil
}

func (d *delivery) kept(where string) {
	if where != "" {
		d.out.Internal["movedAside"] = filepath.Base(where)
	}
}

// fetch brings the accepted bytes from another place into a folder here.
func (d *delivery) fetch(ctx context.Context, from func(ctx context.Context, partial, dest string) (int64, error)) error {
	dest := filepath.Join(d.folder(), d.name)
	if err := os.MkdirAll(filepath.Dir(dest), 0o755); err != nil {
		return err
	}
	if st, err := os.Lstat(dest); err == nil {
		if !st.Mode().IsRegular() {
			return fmt.Errorf("%s: there is something else than a file; move it away", dest)
		}
		if err := sameBytes(ctx, dest, d.file.Digest, "a different file is already delivered under this name; it is never written over: move it away or deliver under another name"); err != nil {
			return err
		}
	}
	partial := dest + ".partial"
	if exists(dest) && !exists(partial) {
		_ = os.Link(dest, partial) // what is here already is not fetched again; without links it is
	}
	resumed, err := from(ctx, partial, dest)
	if err != nil {
		return fmt.Errorf("deliver %s: %w", d.name, err)
	}
	if err := sameBytes(ctx, partial, d.file.Digest, "the bytes at the destination are not those that were accepted; the partial file is kept"); err != nil {
		return err
	}
	if exists(dest) {
		if err := os.Remove(partial); err != nil {
			return err
		}
	} else if err := publish(partial, dest); err != nil {
		return err
	}
	return d.arrived(ctx, dest, resumed)
}

// fromMachine fetches from another machine into a partial file.
func (d *delivery) fromMachine(ctx context.Context, partial, dest string) (int64, error) {
	c, at, err := d.dial(ctx, d.with.From)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	t, _, err := c.Get(ctx, at.Path, d.file.Digest, partial, dest, d.via(), d.progress("fetching"))
	if err != nil {
		return 0, err
	}
	d.kept(t.Kept)
	return t.Resumed, d.agree(t.Local, t.Remote, t.RemoteBy, d.via())
}
