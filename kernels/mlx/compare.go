package mlx

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/folder"
	"github.com/weighmaster/weighmaster/kernels/number"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// The checks of a comparison, as findings name them.
const (
	CheckTensor    = "tensor"
	CheckMissing   = "tensor missing"
	CheckNoSource  = "tensor without a source"
	CheckRebuilt   = "quantized weights"
	CheckUntouched = "untouched tensor"
)

// chunk is the number of weights that are held at once.
const chunk = 1 << 16

// Compare tells what an MLX folder is to the Hugging Face folder source.
// Tensors are read once, in chunks; memory does not grow with them. The error
// is that of reading, of ctx, or of a source that is no snapshot; everything
// that differs is in the result.
func Compare(ctx context.Context, source fs.FS, m *Model) (Result, error) {
	return compareSome(ctx, source, m, nil)
}

// compareSome compares some tensors, all where only is nil.
func compareSome(ctx context.Context, source fs.FS, m *Model, only map[string]bool) (Result, error) {
	src, err := safetensors.OpenSnapshot(source)
	if err != nil {
		return Result{}, fmt.Errorf("mlx: source: %w", err)
	}
	defer src.Close()
	c := &comparison{source: src, model: m, only: only}
	c.result = Result{Tensors: []TensorResult{}, Schemes: map[string]int{}, Weights: []kernels.Finding{}, Files: []kernels.Finding{}, Notes: []string{}}
	var known bool
	var modelType string
	c.rules, modelType, known = sanitizer(m.config)
	if !known {
		c.note(fmt.Sprintf("What mlx-lm does to the tensors of model type %.80q is not known here: tensors are compared under their own names.", modelType))
	}
	used, err := c.tensors(ctx)
	if err != nil {
		return Result{}, err
	}
	if only == nil {
		if err := c.rest(ctx, used, modelType, known); err != nil {
			return Result{}, err
		}
	}
	if err := c.files(source); err != nil {
		return Result{}, err
	}
	c.judge()
	return c.result, nil
}

type comparison struct {
	source *safetensors.Snapshot
	model  *Model
	only   map[string]bool // nil: all tensors
	rules  sanitize
	result Result
}

func (c *comparison) note(s string) {
	if !slices.Contains(c.result.Notes, s) {
		c.result.Notes = append(c.result.Notes, s)
	}
}

func (c *comparison) find(check, where, got, want string) {
	c.result.Weights = append(c.result.Weights, kernels.Finding{Check: check, Where: where, Got: got, Want: want})
}

// tensors compares every tensor of the folder and gives the source's that were used.
func (c *comparison) tensors(ctx context.Context) (map[string]bool, error) {
	used := map[string]bool{}
	for _, t := range c.model.Tensors {
		if c.only != nil && !c.only[t.Name] {
			continue
		}
		one := TensorResult{Name: t.Name, Scheme: t.Scheme, Type: string(t.Type), Weights: t.Elements(), Outcome: Differs}
		if t.Scheme != nil {
			c.result.Schemes[t.Scheme.String()]++
		}
		parts, problem := c.parts(t)
		for _, p := range parts {
			one.Sources = append(one.Sources, p.Name)
			used[p.Name] = true
		}
		switch {
		case problem != nil:
			c.result.Weights = append(c.result.Weights, *problem)
		case t.Scheme == nil:
			if err := c.untouched(ctx, t, parts, &one); err != nil {
				return nil, err
			}
		default:
			if err := c.quantized(ctx, t, parts, &one); err != nil {
				return nil, err
			}
		}
		c.result.Tensors = append(c.result.Tensors, one)
	}
	return used, nil
}

// parts finds the source's tensors that t is made of, and compares shapes.
func (c *comparison) parts(t Tensor) ([]safetensors.SnapshotTensor, *kernels.Finding) {
	names, err := c.rules.sources(t.Name, c.model.config)
	if err != nil {
		return nil, &kernels.Finding{Check: CheckNoSource, Where: t.Name, Got: err.Error(), Want: "the experts that are stacked in it"}
	}
	want := t.Shape
	if len(names) > 1 || names[0] != t.Name {
		if len(t.Shape) < 2 || t.Shape[0] != uint64(len(names)) {
			return nil, &kernels.Finding{Check: CheckTensor, Where: t.Name, Got: fmt.Sprintf("shape %v", t.Shape), Want: fmt.Sprintf("%d stacked experts", len(names))}
		}
		want = t.Shape[1:]
	}
	var parts []safetensors.SnapshotTensor
	for _, name := range names {
		s, ok := c.source.Lookup(name)
		if !ok {
			return parts, &kernels.Finding{Check: CheckNoSource, Where: t.Name, Got: "no " + name + " in the source", Want: "the tensor that it was made from"}
		}
		parts = append(parts, s)
		if !slices.Equal(s.Shape, want) {
			return parts, &kernels.Finding{Check: CheckTensor, Where: t.Name, Got: fmt.Sprintf("shape %v", want), Want: fmt.Sprintf("%v, as %s in the source", s.Shape, name),
				Hint: "bits and group size of config.json may be wrong: packed, 4 bits in groups of 64 look like 8 in groups of 32"}
		}
		if s.DType != parts[0].DType {
			return parts, &kernels.Finding{Check: CheckTensor, Where: name, Got: string(s.DType), Want: string(parts[0].DType) + ", as the other experts"}
		}
	}
	return parts, nil
}

// rest accounts for the source's tensors that no tensor of the folder was made from.
func (c *comparison) rest(ctx context.Context, used map[string]bool, modelType string, known bool) error {
	for _, s := range c.source.Tensors() {
		if used[s.Name] {
			continue
		}
		why, ok := c.rules.drops(s.Name, c.model.config)
		if !ok {
			want := "a tensor of the folder"
			if !known {
				want += fmt.Sprintf(", or a rule for model type %.80q, which is not known here", modelType)
			}
			c.find(CheckMissing, s.Name, "in the source only", want)
			continue
		}
		c.note(fmt.Sprintf("%s was dropped: %s.", s.Name, why))
		if s.Name != "lm_head.weight" {
			continue
		}
		same, err := c.isEmbedding(ctx, s)
		if err != nil {
			return err
		}
		if _, said := c.model.config["tie_word_embeddings"]; !same && !said {
			c.find(CheckMissing, s.Name, "dropped, although it is not the embedding and config.json does not tie it", "the model's output matrix")
		} else if !same {
			c.note("The source has a lm_head.weight that is not its embedding, although config.json ties them: engines that follow the file and engines that follow the configuration compute two models.")
		}
	}
	return nil
}

// isEmbedding tells whether a tensor has the bytes of the embedding.
func (c *comparison) isEmbedding(ctx context.Context, s safetensors.SnapshotTensor) (bool, error) {
	e, ok := c.source.Lookup("model.embed_tokens.weight")
	if !ok || e.DType != s.DType || !slices.Equal(e.Shape, s.Shape) {
		return false, nil
	}
	at, err := folder.FirstDifference(ctx, c.source.Section(e), c.source.Section(s))
	return at < 0, err
}

func (c *comparison) judge() {
	r := &c.result
	r.Verdict = kernels.Passed
	for _, t := range r.Tensors {
		switch t.Outcome {
		case Bounded:
			r.Verdict = kernels.Undecided
			c.note(noteBounded)
		case Recomputed:
			if strings.HasPrefix(t.Backend, gpu.name) {
				c.note(noteGPU)
			}
		case Differs:
			if t.Scheme != nil && t.Groups > 0 {
				c.note(noteLearned)
			}
		}
	}
	if len(r.Weights)+len(r.Files) > 0 {
		r.Verdict = kernels.Failed
	}
}

// typeOf is the type of a tensor that is known to hold floats.
func typeOf(d safetensors.DType) number.Type {
	t, _ := number.Of(d)
	return t
}
