package folder

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/memfs"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// Rewrite gives a view of the folder of a snapshot with n bytes of a tensor changed.
func Rewrite(fsys fs.FS, s *safetensors.Snapshot, t safetensors.SnapshotTensor, offset, n int64, change func([]byte)) (View, error) {
	b := make([]byte, n)
	if got, err := s.Section(t).ReadAt(b, offset); got < len(b) {
		return View{}, fmt.Errorf("folder: %s: read bytes [%d, %d): %w", t.Name, offset, offset+n, err)
	}
	change(b)
	return View{FS: fsys, Patches: map[string][]kernels.Patch{s.Shards[t.Shard].Name: {{Offset: t.Begin + offset, Bytes: b}}}}, nil
}

// Flip gives a view with one bit of a tensor's bytes changed.
func Flip(fsys fs.FS, s *safetensors.Snapshot, t safetensors.SnapshotTensor, offset int64, bit uint) (View, error) {
	return Rewrite(fsys, s, t, offset, 1, func(b []byte) { b[0] ^= 1 << bit })
}

// Rename gives a view with "_" for one byte of a tensor's name, in its shard and
// in the index.
func Rename(fsys fs.FS, s *safetensors.Snapshot, t safetensors.SnapshotTensor, at int) (View, error) {
	shard := s.Shards[t.Shard]
	header := make([]byte, shard.File.HeaderSize)
	if n, err := shard.R.ReadAt(header, 0); n < len(header) {
		return View{}, fmt.Errorf("folder: %s: read the header: %w", shard.Name, err)
	}
	old := []byte(`"` + t.Name + `"`)
	where := bytes.Index(header, old)
	if where < 0 {
		return View{}, fmt.Errorf("folder: %s: got no %s in the header's own spelling, want it to plant a fault in", shard.Name, old)
	}
	now := bytes.Clone(old)
	now[1+at] = '_'
	v := View{FS: fsys, Patches: map[string][]kernels.Patch{shard.Name: {{Offset: int64(where), Bytes: now}}}}
	if s.Index == nil {
		return v, nil
	}
	index, err := Read(fsys, safetensors.IndexName)
	v.Files = memfs.FS{safetensors.IndexName: bytes.Replace(index, old, now, 1)}
	return v, err
}

// Control is one fault that a kernel plants in a view of a folder. What is
// reported has to hold the words of Want.
type Control struct {
	Name, Fault, Want string
	View              func() (View, error)
}

// Plant judges the view of every control, and adds which were reported. An
// error is that of making or judging a view.
func Plant(ctx context.Context, list []Control, to *kernels.Controls, judge func(View) ([]kernels.Finding, error)) error {
	for _, control := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		v, err := control.View()
		if err != nil {
			return err
		}
		found, err := judge(v)
		if err != nil {
			return err
		}
		to.Judge(control.Name, control.Fault, found, func(f kernels.Finding) bool { return strings.Contains(f.String(), control.Want) })
	}
	return nil
}
