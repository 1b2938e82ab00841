package stages

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/registry"
	"github.com/weighmaster/weighmaster/stages/remote"
)

// toRegistry delivers into an OCI registry, with the public evidence attached.
func (d *delivery) toRegistry(ctx context.Context) error {
	repo, err := registry.Open(d.with.To, registry.Options{PlainHTTP: d.with.PlainHTTP})
	if err != nil {
		return err
	}
	if d.run.Extra.Attachment == nil {
		return fmt.Errorf("stage %s: no evidence to attach was handed in", d.run.Stage)
	}
	evidence, err := d.run.Extra.Attachment(ctx, d.file)
	if err != nil {
		return err
	}
	pushed, err := repo.Push(ctx, registry.File{Path: d.file.Path, Name: d.name, Size: d.file.Files[0].Sums.Size, Digest: d.file.Digest}, d.progress("delivering"))
	if err != nil {
		return fmt.Errorf("deliver %s: %w", d.name, err)
	}
	attached, err := repo.Attach(ctx, d.file.Digest, evidence)
	if err != nil {
		return fmt.Errorf("deliver %s: %w", d.name, err)
	}
	sums, err := digest.File(ctx, d.file.Path)
	if err != nil {
		return err
	}
	if err := d.agree(sums.SHA256, pushed.Remote, registry.ReadBack, "oci"); err != nil {
		return err
	}
	d.fact(schemas.FactManifest, pushed.Manifest.String())
	d.out.Internal["evidence"] = attached.String()
	d.left(pushed.Resumed)
	return nil
}

// fromRegistry fetches from an OCI registry into a partial file.
func (d *delivery) fromRegistry(ctx context.Context, partial, dest string) (resumed int64, err error) {
	repo, err := registry.Open(d.with.From, registry.Options{PlainHTTP: d.with.PlainHTTP})
	if err != nil {
		return 0, err
	}
	f, err := remote.OpenPartial(partial)
	if err != nil {
		return 0, err
	}
	to := &registry.LocalPartial{File: f, Rename: func() (*os.File, error) {
		if err := f.Close(); err != nil {
			return nil, err
		}
		kept, err := remote.Aside(partial, dest)
		if err != nil {
			return nil, err
		}
		d.kept(kept)
		f, err = remote.OpenPartial(partial)
		return f, err
	}}
	pulled, err := repo.Pull(ctx, d.file.Digest, to, d.progress("fetching"))
	if err == nil {
		err = finish(to.File)
	}
	if err = errors.Join(err, to.File.Close()); err != nil {
		var other *registry.OtherBytesError
		var moved *registry.MovedError
		if (errors.As(err, &other) || errors.As(err, &moved)) && pulled.Remote != "" {
			kept, aside := remote.Aside(partial, dest)
			err = errors.Join(fmt.Errorf("%w; what arrived is kept as %s", err, kept), aside)
		}
		return 0, err
	}
	sums, err := digest.File(ctx, partial)
	if err != nil {
		return 0, err
	}
	d.fact(schemas.FactManifest, pulled.Manifest.String())
	return pulled.Resumed, d.agree(sums.SHA256, pulled.Remote, registry.PulledBy, "oci")
}
