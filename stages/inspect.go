package stages

import (
	"context"
	"errors"
	"io/fs"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
	"github.com/weighmaster/weighmaster/schemas"
)

// Inspect checks the structure of a snapshot (role snapshot) without loading
// weights. It makes nothing but its report.
type Inspect struct{}

// Uses implements [Stage].
func (Inspect) Uses() string { return "inspect" }

// Run implements [Stage].
func (Inspect) Run(ctx context.Context, run *Run) (*Outcome, error) {
	snapshot, err := run.input("snapshot")
	if err != nil {
		return nil, err
	}
	fsys, root, err := snapshot.folder("snapshot")
	if err != nil {
		return nil, err
	}
	defer root.Close()
	report, err := safetensors.InspectSnapshot(ctx, fsys, nil)
	if err != nil {
		return nil, err
	}
	if report.Verdict == kernels.Passed {
		if err := holdAgainstConfig(fsys, &report); err != nil {
			return nil, err
		}
	}
	out := &Outcome{Reports: []kernels.Report{report}, Verdict: schemas.Verdict(report.Verdict)}
	if report.Verdict != kernels.Passed {
		out.Failure = failureOf(report)
	}
	return out, nil
}

// holdAgainstConfig holds names and shapes against config.json for every architecture with a mapping: the kernel knows
// those of Llama alone. Folders whose matrices are packed have other shapes, and are left to their comparison.
func holdAgainstConfig(fsys fs.FS, report *kernels.Report) error {
	snapshot, err := safetensors.OpenSnapshot(fsys)
	if err != nil {
		return err
	}
	packed := snapshot.Summarize(fsys).Container != ""
	if err := snapshot.Close(); err != nil || packed {
		return err
	}
	model, err := convert.Open(fsys)
	var unknown *convert.UnknownArchitectureError
	switch {
	case err == nil:
		return model.Close()
	case errors.As(err, &unknown), errors.Is(err, fs.ErrNotExist):
		return nil
	}
	report.Find(kernels.Finding{Check: safetensors.CheckConfig, Where: "config.json", Got: err.Error(), Want: "the tensors that the architecture calls for, in their shapes"})
	return report.Finish()
}
