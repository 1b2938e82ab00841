package mlx

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/folder"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// Kernel describes the comparison of an MLX folder with its source.
func Kernel() kernels.Kernel {
	k := kernels.Kernel{
		Name:    "mlx derivation",
		Version: "1.0.0",
		Spec:    "https://ml-explore.github.io/mlx/build/html/python/_autosummary/mlx.core.quantize.html",
		Summary: "An MLX folder follows from its Hugging Face source: every group of weights is what MLX's quantizer gives, everything else is the same.",
		Limits: []kernels.Limit{
			{What: "Learned quantizations (DWQ, AWQ, GPTQ) cannot be told from an edit and are not accepted.", Probe: probeLearned},
			{What: "Groups that are near the source but not MLX's rounding leave the verdict undecided.", Probe: probeBounded},
			{What: "Where it is not known what mlx-lm does to a model type's tensors, they are compared under their own names, and the report says so.", Probe: probeUnknownType},
		},
		Gates: []kernels.Gate{
			{Metric: "groups beyond the bound", Unit: "groups", Compare: kernels.Equal, Value: 0},
			{Metric: "groups that do not follow", Unit: "groups", Compare: kernels.Equal, Value: 0},
			{Metric: "tensors", Unit: "tensors", Compare: kernels.AtLeast, Value: 1},
		},
	}
	for _, c := range controls {
		k.Faults = append(k.Faults, c.fault)
	}
	k.SelfCheck = func(ctx context.Context) (kernels.Report, error) {
		source, product := example()
		return Check(ctx, source, product)
	}
	return k
}

// Check compares a folder with its source and plants every control in views of
// the folder; in a built-in one where this one was not accepted or has no matrix
// of mode affine. The error is that of reading or of ctx.
func Check(ctx context.Context, source, product fs.FS) (kernels.Report, error) {
	rep := Kernel().NewReport()
	r, found, err := compareFolders(ctx, source, product, nil)
	if err != nil {
		return rep, err
	}
	for _, f := range found {
		rep.Find(f)
	}
	if err := folder.AddInputs(ctx, &rep, source, product, isInput); err != nil {
		return rep, err
	}
	r.describe(&rep)
	p, err := newPlanter(source, product)
	if err != nil || len(found) > 0 {
		if p, err = newPlanter(example()); err != nil {
			return rep, err
		}
	}
	if err := p.plant(ctx, &rep.Controls); err != nil {
		return rep, err
	}
	if err := rep.Finish(); err != nil {
		return rep, err
	}
	if r.Verdict == kernels.Undecided && rep.Verdict == kernels.Passed {
		rep.Verdict = kernels.Undecided
	}
	return rep, nil
}

// compareFolders compares and gives every difference as findings, the refusal
// of the folder included. With only, nothing but these tensors is read.
func compareFolders(ctx context.Context, source, product fs.FS, only map[string]bool) (Result, []kernels.Finding, error) {
	m, err := Open(product)
	var bad *Error
	var snapshot *safetensors.SnapshotError
	switch {
	case errors.As(err, &bad):
		return Result{}, bad.Findings, nil
	case errors.As(err, &snapshot):
		return Result{}, snapshot.Findings, nil
	case err != nil:
		return Result{}, nil, err
	}
	defer m.Close()
	r, err := compareSome(ctx, source, m, only)
	if err != nil {
		return r, nil, err
	}
	return r, append(append([]kernels.Finding{}, r.Weights...), r.Files...), nil
}

// describe adds the counts of a comparison.
func (r Result) describe(rep *kernels.Report) {
	var weights, groups, outside, other, worst, steps, e, s float64
	count := map[Outcome]float64{}
	for _, t := range r.Tensors {
		count[t.Outcome]++
		weights += float64(t.Weights)
		groups += float64(t.Groups)
		outside += float64(t.Outside)
		other += float64(t.Groups - t.Follow)
		worst, steps = max(worst, t.OfBound), max(steps, t.Steps)
		e += t.sumError
		s += t.sumSource
	}
	rep.Metric("tensors", "tensors", float64(len(r.Tensors)))
	rep.Metric("weights", "weights", weights)
	rep.Metric("groups", "groups", groups)
	rep.Metric("groups beyond the bound", "groups", outside)
	rep.Metric("groups that do not follow", "groups", other)
	rep.Metric("largest error", "of the bound", worst)
	rep.Metric("largest error in steps", "steps", steps)
	if s > 0 && e/s <= 1e300 {
		rep.Metric("square error of quantized matrices", "of the source's squares", e/s)
	}
	for _, o := range []Outcome{Same, Cast, Recomputed, UpToTies, Bounded, Differs} {
		rep.Metrics = append(rep.Metrics, kernels.Metric{Name: "tensors by outcome", Unit: "tensors", Value: count[o], Identity: map[string]string{"outcome": string(o)}})
	}
}

// isInput tells whether a comparison reads a file.
func isInput(name string) bool {
	return strings.HasSuffix(name, ".safetensors") || strings.HasSuffix(name, ".json") || strings.HasSuffix(name, ".py") || name == templateName
}
