package stages

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/hub"
	"github.com/weighmaster/weighmaster/stages/registry"
	"github.com/weighmaster/weighmaster/stages/remote"
)

// Deliver copies accepted bytes to the folder of delivered files or another
// one, to another machine over ssh, or into an OCI registry; or it fetches them
// from there. Input role: artifact, a single file, whose bytes need not be here
// where they are fetched. The output is the file at its destination.
type Deliver struct{}

// Uses implements [Stage].
func (Deliver) Uses() string { return "deliver" }

// TakesRemote implements [RemoteTaker].
func (Deliver) TakesRemote() {}

type deliverWith struct {
	To        string `json:"to"`
	From      string `json:"from"`
	Via       string `json:"via"`
	Config    string `json:"config"`
	PlainHTTP bool   `json:"plainHTTP"`
}

// leaves tells whether the bytes go to another machine or a registry.
func (w deliverWith) leaves() bool {
	return strings.HasPrefix(w.To, remote.Scheme) || strings.HasPrefix(w.To, registry.Scheme)
}

// delivery is one file on its way.
type delivery struct {
	run  *Run
	with deliverWith
	file Artifact
	name string
	out  *Outcome
}

// Run implements [Stage].
func (Deliver) Run(ctx context.Context, run *Run) (*Outcome, error) {
	d := delivery{run: run}
	if err := decodeWith(run, &d.with); err != nil {
		return nil, err
	}
	if err := d.with.check(run.Stage); err != nil {
		return nil, err
	}
	var err error
	if d.file, err = run.Single("artifact"); err != nil {
		return nil, err
	}
	if run.Extra == nil || run.Extra.Delivered == "" {
		return nil, fmt.Errorf("stage %s: no policy and destination were handed in", run.Stage)
	}
	d.name = path.Base(d.file.Files[0].Name)
	if err := hub.CheckName(d.name); err != nil {
		return nil, err
	}
	if d.file.Remote && d.with.From == "" {
		return nil, fmt.Errorf("stage %s: the bytes of %s (%s) are on another machine; say where with from: (ssh://… or oci://…)", run.Stage, d.file.Name, d.file.Digest)
	}
	d.out = &Outcome{Facts: map[string]string{schemas.FactDestination: d.name}, Internal: map[string]any{}}
	by, refused := accepted(run, d.file.Digest)
	if refused != nil {
		d.out.Verdict, d.out.Failure = refused.verdict, refused.Error()
		return d.out, nil
	}
	d.out.Internal["acceptedBy"] = by
	sources, err := CompareSources(run.Claims)
	if err != nil {
		d.out.Verdict, d.out.Failure = schemas.Failed, err.Error()
		return d.out, nil
	}
	d.fact(schemas.FactSources, sources)
	if err := d.transfer(ctx); err != nil {
		return d.out, err
	}
	d.out.Verdict = schemas.Passed
	return d.out, nil
}

// check refuses parameters that do not go together.
func (w deliverWith) check(stage string) error {
	ssh := strings.HasPrefix(w.To, remote.Scheme) || strings.HasPrefix(w.From, remote.Scheme)
	oci := strings.HasPrefix(w.To, registry.Scheme) || strings.HasPrefix(w.From, registry.Scheme)
	switch {
	case w.From != "" && w.leaves():
		return fmt.Errorf("stage %s: from: and to: both name another place; fetch the file here first, in a stage of its own", stage)
	case !w.leaves() && strings.Contains(w.To, "://"):
		return fmt.Errorf("stage %s: to: %.200q: want a folder, ssh:// or oci://", stage, w.To)
	case (w.Via != "" || w.Config != "") && !ssh:
		return fmt.Errorf("stage %s: via: and config: are for ssh:// alone", stage)
	case w.PlainHTTP && !oci:
		return fmt.Errorf("stage %s: plainHTTP: is for oci:// alone", stage)
	}
	return nil
}

// transfer moves the bytes and describes them at their destination.
func (d *delivery) transfer(ctx context.Context) error {
	switch {
	case strings.HasPrefix(d.with.To, remote.Scheme):
		return d.toMachine(ctx)
	case strings.HasPrefix(d.with.To, registry.Scheme):
		return d.toRegistry(ctx)
	case strings.HasPrefix(d.with.From, remote.Scheme):
		return d.fetch(ctx, d.fromMachine)
	case strings.HasPrefix(d.with.From, registry.Scheme):
		return d.fetch(ctx, d.fromRegistry)
	}
	dest := filepath.Join(d.folder(), d.name)
	resumed, err := deliverTo(ctx, d.run, d.file, dest)
	if err != nil {
		return err
	}
	d.fact(schemas.FactVia, "folder")
	return d.arrived(ctx, dest, resumed)
}

// folder is where files on this machine go.
func (d *delivery) folder() string { return deliveredTo(d.run, d.with) }

func deliveredTo(run *Run, with deliverWith) string {
	if with.To == "" {
		return run.Extra.Delivered
	}
	return below(run.Project, with.To)
}

// arrived hashes the file at its destination on this machine.
func (d *delivery) arrived(ctx context.Context, dest string, resumed int64) error {
	f, err := readFile(ctx, d.name, dest)
	if err != nil {
		return err
	}
	if f.Sums.SHA256 != d.file.Digest {
		return fmt.Errorf("%s: got %s, want %s; it changed after it was delivered", dest, f.Sums.SHA256, d.file.Digest)
	}
	d.fact(schemas.FactResumed, strconv.FormatInt(resumed, 10)+" bytes")
	d.fact(schemas.FactSize, strconv.FormatInt(f.Sums.Size, 10))
	d.fact(schemas.FactLocalDigest, f.Sums.SHA256.String())
	a := FileArtifact(f)
	d.out.Output = &a
	return nil
}

// left describes a file that is on another machine now.
func (d *delivery) left(resumed int64) {
	d.fact(schemas.FactResumed, strconv.FormatInt(resumed, 10)+" bytes")
	d.fact(schemas.FactSize, strconv.FormatInt(d.file.Files[0].Sums.Size, 10))
	d.out.Output = &Artifact{Name: d.name, Digest: d.file.Digest, Remote: true, Files: []File{{Name: d.name, Sums: d.file.Files[0].Sums}}}
}

// fact notes what was found in the result, and in the signed Statement itself.
func (d *delivery) fact(name, value string) {
	d.out.Facts[name], d.out.Internal[name] = value, value
}

// progress tells how far the bytes are, now and then.
func (d *delivery) progress(what string) func(done, total int64) {
	var next int64
	return func(done, total int64) {
		if d.run.Progress != nil && (done >= next || done == total) {
			next = done + writtenStep
			d.run.Progress(what, done, total)
		}
	}
}

// deliveryOutput is what a recorded delivery left: elsewhere for what went to
// another place, whose evidence alone is here.
func deliveryOutput(p *provenance.Provenance, run *Run) (dir string, left bool) {
	var with deliverWith
	if p.GetBuildDefinition().GetBuildType() != schemas.BuildType("deliver") || decodeWith(run, &with) != nil {
		return "", false
	}
	return deliveredTo(run, with), with.leaves()
}
