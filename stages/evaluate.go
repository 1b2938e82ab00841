package stages

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/divergence"
	"github.com/weighmaster/weighmaster/kernels/llama"
	"github.com/weighmaster/weighmaster/kernels/npy"
	"github.com/weighmaster/weighmaster/kernels/token"
)

// Evaluate runs the fixtures on a GGUF (role model) with the file's own
// tokenizer, and measures its divergence from the source model's logits (role
// baseline). It makes nothing but its reports; its logits are kept as evidence.
type Evaluate struct{}

// Uses implements [Stage].
func (Evaluate) Uses() string { return "evaluate" }

// Resolve implements [Resolver].
func (Evaluate) Resolve(_ context.Context, run *Run) ([]Dependency, error) { return resolveCorpus(run) }

// Run implements [Stage].
func (Evaluate) Run(ctx context.Context, run *Run) (*Outcome, error) {
	model, err := run.input("model")
	if err != nil {
		return nil, err
	}
	baseline, err := run.input("baseline")
	if err != nil {
		return nil, err
	}
	c, err := readCorpus(run)
	if err != nil {
		return nil, err
	}
	reference, err := openBaseline(baseline, c)
	if err != nil {
		return nil, fmt.Errorf("input baseline: %w", err)
	}
	f, file, err := model.openGGUF("model")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	src, err := llama.OpenGGUF(file)
	if err != nil {
		return nil, err
	}
	tok, err := token.FromGGUF(file)
	if err != nil {
		return nil, err
	}
	m, err := measureModel(ctx, run, src, tok, c)
	if err != nil {
		return nil, err
	}
	out, err := m.outcome(ctx, run, c)
	if err != nil {
		return out, err
	}
	out.report(m.report, append([]kernels.Input{model.asInput("model")}, c.inputs...)...)
	if err := m.storeLogits(ctx, run, out); err != nil {
		return out, err
	}
	report, err := divergence.Compare(ctx, reference, m.side, baseline.Digest)
	if err != nil {
		return out, err
	}
	out.report(report, model.asInput("model"), baseline.asInput("baseline"), c.inputs[1])
	return out, nil
}

func openBaseline(a Artifact, c corpus) (divergence.Side, error) {
	fsys, root, err := a.folder("baseline")
	if err != nil {
		return divergence.Side{}, err
	}
	defer root.Close()
	return readBaseline(fsys, c)
}

func (m measured) storeLogits(ctx context.Context, run *Run, out *Outcome) error {
	for _, t := range m.side.Texts {
		var body bytes.Buffer
		if err := npy.Write(&body, []int{len(t.Rows), m.width}, slices.Concat(t.Rows...)); err != nil {
			return err
		}
		if err := out.store(ctx, run, "array/logits/"+t.Name, "application/x-npy", body.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
