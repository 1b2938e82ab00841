package stages

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/imatrix"
	"github.com/weighmaster/weighmaster/kernels/recipe"
	"github.com/weighmaster/weighmaster/schemas"
)

// Quantize makes a product of an unquantized GGUF (role model): built in, in the
// bytes of llama-quantize; or, where there is an input runtime, by that build's
// own program in the box. An importance matrix (role imatrix, optional) is
// validated against the model first: one with faults makes the run fail, with
// its report, and nothing is made.
type Quantize struct{}

// Uses implements [Stage].
func (Quantize) Uses() string { return "quantize" }

// quantizeWith is with: of the stage.
type quantizeWith struct {
	Type string `json:"type"` // a recipe: Q8_0, Q4_K_M, …
	Pure bool   `json:"pure"` // every matrix gets the recipe's own type
	File string `json:"file"` // name of the output

	Tool    string      `json:"tool"`    // the program below the input runtime
	Threads int         `json:"threads"` // of the program
	Timeout string      `json:"timeout"`
	Box     schemas.Box `json:"box"`
}

// Resolve implements [Resolver].
func (Quantize) Resolve(ctx context.Context, run *Run) ([]Dependency, error) {
	var with quantizeWith
	if err := decodeWith(run, &with); err != nil {
		return nil, err
	}
	if _, external := run.Inputs["runtime"]; !external {
		return nil, nil
	}
	c, err := with.command(run, nil)
	if err != nil {
		return nil, err
	}
	return resolveTool(ctx, run, c)
}

// Run implements [Stage].
func (Quantize) Run(ctx context.Context, run *Run) (*Outcome, error) {
	var with quantizeWith
	if err := decodeWith(run, &with); err != nil {
		return nil, err
	}
	r, ok := recipe.Find(with.Type)
	if !ok {
		return nil, fmt.Errorf("stage %s: type: got %q, want a recipe of llama-quantize, such as Q8_0 or Q4_K_M", run.Stage, with.Type)
	}
	model, err := run.input("model")
	if err != nil {
		return nil, err
	}
	f, source, err := model.openGGUF("model")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	_, external := run.Inputs["runtime"]
	if !external && (with.Tool != "" || with.Threads != 0 || with.Timeout != "" || !noBox(with.Box)) {
		return nil, fmt.Errorf("stage %s: built in, no tool runs: give the stage an input runtime, or leave out tool, threads, timeout and box", run.Stage)
	}
	o := convert.QuantizeOptions{Recipe: r, Types: recipe.Options{Pure: with.Pure}}
	out := &Outcome{Verdict: schemas.Passed, Facts: map[string]string{"type": with.Type}, Internal: map[string]any{"threads": runtime.GOMAXPROCS(0)}}
	if a, given := run.Inputs["imatrix"]; given {
		closeMatrix, err := takeMatrix(ctx, a, source, &o, out)
		if err != nil {
			return nil, err
		}
		defer closeMatrix()
		if out.Verdict != schemas.Passed {
			return out, nil
		}
		out.Facts["imatrix"] = a.Digest.String()
	}
	if external {
		out.Internal = map[string]any{}
		return out, runQuantizer(ctx, run, with, source, out)
	}
	if a, given := run.Inputs["imatrix"]; given {
		if err := recheckCalibrated(ctx, run, a, model); err != nil {
			return out, fmt.Errorf("input imatrix: %w", err)
		}
	}
	file, err := run.Output(with.File, func(w io.Writer) error {
		p := &progressWriter{ctx: ctx, w: w, run: run, what: "quantize to " + with.Type, total: source.Size / 2}
		return convert.Quantize(ctx, source, o, p)
	})
	if err != nil {
		return nil, err
	}
	made := FileArtifact(file)
	out.Output = &made
	return out, nil
}

// takeMatrix validates an importance matrix and adds its report.
func takeMatrix(ctx context.Context, a Artifact, model *gguf.File, o *convert.QuantizeOptions, out *Outcome) (func() error, error) {
	f, file, err := a.openFile("imatrix")
	if err != nil {
		return nil, err
	}
	report, err := imatrix.Inspect(ctx, file.R, file.Size, filepath.Base(a.Path), model.Tensors)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("input imatrix: %w", err)
	}
	out.Reports = append(out.Reports, report)
	if out.Verdict = schemas.Verdict(report.Verdict); report.Verdict != kernels.Passed {
		out.Failure = failureOf(report)
		return f.Close, nil
	}
	if o.Matrix, err = imatrix.Open(file.R, file.Size); err != nil {
		f.Close()
		return nil, fmt.Errorf("input imatrix: %w", err)
	}
	o.MatrixFile = filepath.Base(a.Path)
	return f.Close, nil
}
