package compressed

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/folder"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// Kernel describes the comparison of an FP8 or NVFP4 folder with its source.
func Kernel() kernels.Kernel {
	k := kernels.Kernel{
		Name:    "fp8 and nvfp4 derivation",
		Version: "1.0.0",
		Spec:    "https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf",
		Summary: "Every quantized weight of a compressed-tensors or ModelOpt folder is within half the spacing of its code of the source's, every other tensor is the same.",
		Limits: []kernels.Limit{
			{What: "An edit that stays within a code's cell is not seen.", Probe: probeCell},
			{What: "The scales of activations and of the KV cache are not judged: the source says nothing about them.", Probe: probeScale},
			{What: "Integer formats and MXFP4 of these tools are refused by name.", Probe: probeInteger},
		},
		Gates: []kernels.Gate{
			{Metric: "weights beyond the bound", Unit: "weights", Compare: kernels.Equal, Value: 0},
			{Metric: "largest error", Unit: "of the bound", Compare: kernels.AtMost, Value: 1},
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
// the folder; in a built-in one where this one was not accepted or has no nvfp4
// matrix. The error is that of reading or of ctx.
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
	return rep, rep.Finish()
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
	return r, r.Findings, err
}

// describe adds the counts of a comparison.
func (r Result) describe(rep *kernels.Report) {
	var weights, outside, saturated, nearest, loose, worst float64
	count := map[Outcome]float64{}
	for _, t := range r.Tensors {
		count[t.Outcome]++
		if t.Format == "" {
			continue
		}
		weights += float64(t.Weights)
		outside += float64(t.Outside)
		saturated += float64(t.Saturated)
		nearest += float64(t.Nearest)
		loose += float64(t.Loose)
		worst = max(worst, t.OfBound)
		rep.Metrics = append(rep.Metrics, kernels.Metric{Name: "relative error", Unit: "root mean square of the source's", Value: t.RMS,
			Identity: map[string]string{"tensor": t.Name, "format": string(t.Format), "scales": string(t.Layout)}})
	}
	rep.Metric("tensors", "tensors", float64(len(r.Tensors)))
	rep.Metric("quantized weights", "weights", weights)
	rep.Metric("weights beyond the bound", "weights", outside)
	rep.Metric("weights saturated", "weights", saturated)
	rep.Metric("weights with the nearest code", "weights", nearest)
	rep.Metric("blocks with a scale twice too large", "blocks", loose)
	rep.Metric("largest error", "of the bound", worst)
	for _, o := range []Outcome{Same, Bounded, Differs} {
		rep.Metrics = append(rep.Metrics, kernels.Metric{Name: "tensors by outcome", Unit: "tensors", Value: count[o], Identity: map[string]string{"outcome": string(o)}})
	}
}

// isInput tells whether a comparison reads a file.
func isInput(name string) bool {
	return strings.HasSuffix(name, ".safetensors") || name == configName || name == modelOptName || name == safetensors.IndexName
}
