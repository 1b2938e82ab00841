package stages

import (
	"context"

	"github.com/weighmaster/weighmaster/kernels"
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
	out := &Outcome{Reports: []kernels.Report{report}, Verdict: schemas.Verdict(report.Verdict)}
	if report.Verdict != kernels.Passed {
		out.Failure = failureOf(report)
	}
	return out, nil
}
