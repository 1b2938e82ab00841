package stages

import (
	"context"
	"fmt"
	"io"

	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/schemas"
)

// Convert turns a snapshot (role snapshot) into a GGUF: built in, that of a
// LlamaForCausalLM into BF16; or, where there is an input converter, by
// llama.cpp's own converter in the box.
type Convert struct{}

// Uses implements [Stage].
func (Convert) Uses() string { return "convert" }

// convertWith is with: of the stage.
type convertWith struct {
	Type string `json:"type"` // BF16; of an external converter F16, F32 and Q8_0 as well
	File string `json:"file"` // name of the output
	Name string `json:"name"` // general.name; left out when empty

	Converter      string      `json:"converter"` // the script below the input converter
	Python         string      `json:"python"`
	VocabularyOnly bool        `json:"vocabularyOnly"`
	Timeout        string      `json:"timeout"`
	Box            schemas.Box `json:"box"`
}

// Resolve implements [Resolver].
func (Convert) Resolve(ctx context.Context, run *Run) ([]Dependency, error) {
	var with convertWith
	if err := decodeWith(run, &with); err != nil {
		return nil, err
	}
	if _, external := run.Inputs["converter"]; !external {
		return nil, nil
	}
	return resolveConverter(ctx, run, with)
}

// Run implements [Stage].
func (Convert) Run(ctx context.Context, run *Run) (*Outcome, error) {
	var with convertWith
	if err := decodeWith(run, &with); err != nil {
		return nil, err
	}
	if _, external := run.Inputs["converter"]; external {
		return runConverter(ctx, run, with)
	}
	if with.Type != "BF16" || with.Converter != "" || with.Python != "" || with.VocabularyOnly || with.Timeout != "" || !noBox(with.Box) {
		return nil, fmt.Errorf("stage %s: built in, a whole model becomes BF16 and no tool runs: give the stage an input converter, or leave out converter, python, vocabularyOnly, timeout and box", run.Stage)
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
