package stages

import (
	"context"
	"io"

	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/schemas"
)

// Convert turns the snapshot of a LlamaForCausalLM (role snapshot) into a BF16 GGUF, built in.
type Convert struct{}

// Uses implements [Stage].
func (Convert) Uses() string { return "convert" }

// convertWith is with: of the stage.
type convertWith struct {
	Type string `json:"type"` // BF16
	File string `json:"file"` // name of the output
	Name string `json:"name"` // general.name; left out when empty
}

// Run implements [Stage].
func (Convert) Run(ctx context.Context, run *Run) (*Outcome, error) {
	var with convertWith
	if err := decodeWith(run, &with); err != nil {
		return nil, err
	}
	snapshot, err := run.input("snapshot")
	if err != nil {
		return nil, err
	}
	fsys, root, err := snapshot.folder("snapshot")
	if err != nil {
		return nil, err
	}
	defer root.Close()
	model, err := convert.Open(fsys)
	if err != nil {
		return nil, err
	}
	defer model.Close()
	file, err := run.Output(with.File, func(w io.Writer) error {
		p := &progressWriter{ctx: ctx, w: w, run: run, what: "convert to BF16", total: model.Size()}
		return model.Write(ctx, p, convert.Options{Name: with.Name})
	})
	if err != nil {
		return nil, err
	}
	out := FileArtifact(file)
	return &Outcome{Output: &out, Verdict: schemas.Passed, Facts: map[string]string{"type": with.Type}}, nil
}
