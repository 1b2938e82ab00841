package stages

import (
	"context"
	"fmt"
	"io"

	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/kernels/recipe"
	"github.com/weighmaster/weighmaster/schemas"
)

// Quantize makes a Q8_0 of an unquantized GGUF (role model), built in, in the bytes of llama-quantize.
type Quantize struct{}

// Uses implements [Stage].
func (Quantize) Uses() string { return "quantize" }

// quantizeWith is with: of the stage.
type quantizeWith struct {
	Type string `json:"type"` // Q8_0
	File string `json:"file"` // name of the output
}

// Run implements [Stage].
func (Quantize) Run(ctx context.Context, run *Run) (*Outcome, error) {
	var with quantizeWith
	if err := decodeWith(run, &with); err != nil {
		return nil, err
	}
	r, ok := recipe.Find(with.Type)
	if !ok {
		return nil, fmt.Errorf("stage %s: type: got %q, want Q8_0", run.Stage, with.Type)
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
	file, err := run.Output(with.File, func(w io.Writer) error {
		p := &progressWriter{ctx: ctx, w: w, run: run, what: "quantize to " + with.Type, total: source.Size / 2}
		return convert.Quantize(ctx, source, convert.QuantizeOptions{Recipe: r}, p)
	})
	if err != nil {
		return nil, err
	}
	out := FileArtifact(file)
	return &Outcome{Output: &out, Verdict: schemas.Passed, Facts: map[string]string{"type": with.Type}}, nil
}
