package stages

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weighmaster/weighmaster/kernels/derive"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// input finds the artifact of a role.
func (r *Run) input(role string) (Artifact, error) {
	a, ok := r.Inputs[role]
	if !ok {
		return Artifact{}, fmt.Errorf("stage %s: input %s: got none, want one; name an earlier stage in the pipeline", r.Stage, role)
	}
	return a, nil
}

// folder opens a folder artifact so that no name or link leads out of it. Close the root after use.
func (a Artifact) folder(role string) (fs.FS, *os.Root, error) {
	if !a.Multi {
		return nil, nil, fmt.Errorf("input %s: got the file %s, want a folder", role, a.Name)
	}
	root, err := os.OpenRoot(a.Path)
	if err != nil {
		return nil, nil, fmt.Errorf("input %s: %w", role, err)
	}
	return root.FS(), root, nil
}

// openFile opens a single-file artifact. Close the file after use.
func (a Artifact) openFile(role string) (*os.File, derive.File, error) {
	if a.Multi {
		return nil, derive.File{}, fmt.Errorf("input %s: got the folder %s, want one file", role, a.Name)
	}
	f, err := os.Open(a.Path)
	if err != nil {
		return nil, derive.File{}, fmt.Errorf("input %s: %w", role, err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, derive.File{}, fmt.Errorf("input %s: %w", role, err)
	}
	return f, derive.File{R: f, Size: info.Size()}, nil
}

// openGGUF opens a GGUF artifact and reads its header. Close the file after use.
func (a Artifact) openGGUF(role string) (*os.File, *gguf.File, error) {
	f, in, err := a.openFile(role)
	if err != nil {
		return nil, nil, err
	}
	model, err := gguf.Open(in.R, in.Size)
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("input %s: %s: %w", role, filepath.Base(a.Path), err)
	}
	return f, model, nil
}

// writtenStep is how many bytes pass between two words of progress.
const writtenStep = 64 << 20

// progressWriter tells how much of an output is written and ends with its context.
type progressWriter struct {
	ctx         context.Context
	w           io.Writer
	run         *Run
	what        string
	done, total int64 // bytes; total is an estimate
	next        int64
}

func (p *progressWriter) Write(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := p.w.Write(b)
	p.done += int64(n)
	if p.done >= p.next && p.run.Progress != nil {
		p.next = p.done + writtenStep
		p.run.Progress(p.what, p.done, max(p.total, p.done))
	}
	return n, err
}
