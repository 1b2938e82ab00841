package derive

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/compressed"
	"github.com/weighmaster/weighmaster/kernels/mlx"
)

// quantizedFolder tells which package knows a snapshot's quantized form, empty for none.
func quantizedFolder(in Input) string {
	switch {
	case in.Snapshot == nil:
		return ""
	case compressed.Is(in.Snapshot):
		return "compressed"
	case mlx.Is(in.Snapshot):
		return "mlx"
	}
	return ""
}

// inputKind names what one side is.
func inputKind(in Input, quantized string) string {
	switch {
	case in.Snapshot == nil:
		return "a GGUF file"
	case quantized == "mlx":
		return "a folder that MLX quantized"
	case quantized != "":
		return "a folder that compressed-tensors or ModelOpt quantized"
	}
	return "a Hugging Face folder"
}

// compareFolders compares where a side is a folder that MLX, compressed-tensors
// or ModelOpt quantized; done is false where neither is.
func compareFolders(ctx context.Context, source, target Input) (r Relation, done bool, err error) {
	from, to := quantizedFolder(source), quantizedFolder(target)
	switch {
	case from == "" && to == "":
		return Relation{}, false, nil
	case from == "compressed" && to == "compressed":
		r, err = sameWeights(ctx, source.Snapshot, target.Snapshot)
	case from == "mlx" && to == "mlx":
		r, err = compareRaw(ctx, source.Snapshot, target.Snapshot)
	case from != "" || source.Snapshot == nil:
		err = &UncheckedError{Got: fmt.Sprintf("%s as the source of %s", inputKind(source, from), inputKind(target, to)),
			Want: "two GGUF files or folders, two folders that one tool quantized, or a quantized folder beside the Hugging Face folder that it was made from"}
	case to == "mlx":
		r, err = compareMLX(ctx, source.Snapshot, target.Snapshot)
	default:
		r, err = compareCompressed(ctx, source.Snapshot, target.Snapshot)
	}
	return r, true, err
}

// compareRaw compares two folders under their own names, bytes as they stand.
func compareRaw(ctx context.Context, a, b fs.FS) (Relation, error) {
	src, err := openRaw(a, "MLX")
	if err != nil {
		return Relation{}, &SourceError{err}
	}
	defer src.close()
	dst, err := openRaw(b, "MLX")
	if err != nil {
		return Relation{}, fmt.Errorf("target: %w", err)
	}
	defer dst.close()
	r, err := compareSides(ctx, src, dst, Options{})
	if err != nil {
		return r, err
	}
	found, err := packedAlike(a, b)
	if err != nil {
		return r, err
	}
	if len(found) > 0 {
		r.Kind, r.Class, r.Findings = NotDerived, None, append(found, r.Findings...)
		r.Unproven = unprovenFile(r)
	}
	err = r.besideFolders(ctx, a, b, nil)
	return r, err
}

func compareMLX(ctx context.Context, source, target fs.FS) (Relation, error) {
	m, err := mlx.Open(target)
	if err != nil {
		return Relation{}, fmt.Errorf("target: %w", err)
	}
	defer m.Close()
	result, err := mlx.Compare(ctx, source, m)
	if err != nil {
		return Relation{}, err
	}
	r := Relation{Types: map[string]int{}, Tensors: []TensorRelation{}, Moved: []Move{}, Findings: result.Weights, Metadata: result.Files, Notes: result.Notes}
	classes := map[mlx.Outcome]Class{mlx.Same: ClassA, mlx.Cast: ClassA, mlx.Recomputed: ClassA, mlx.UpToTies: ClassB, mlx.Bounded: ClassD}
	quantized := false
	for _, t := range result.Tensors {
		one := TensorRelation{Name: t.Name, Type: t.Type, Class: classes[t.Outcome], Build: t.Backend, Blocks: int64(t.Groups), Differing: int64(t.Groups - t.Follow)}
		if t.Scheme != nil {
			one.Type, quantized = t.Scheme.String(), true
			if one.Class != ClassA {
				one.Error = finite(t.RMS)
			}
		}
		one.Unproven = unprovenOutcome(one.Class, string(t.Outcome))
		r.Types[one.Type]++
		r.Tensors = append(r.Tensors, one)
	}
	r.conclude(quantized)
	return r, nil
}

func compareCompressed(ctx context.Context, source, target fs.FS) (Relation, error) {
	m, err := compressed.Open(target)
	if err != nil {
		return Relation{}, fmt.Errorf("target: %w", err)
	}
	defer m.Close()
	result, err := compressed.Compare(ctx, source, m)
	if err != nil {
		return Relation{}, err
	}
	r := Relation{Types: map[string]int{}, Tensors: []TensorRelation{}, Moved: []Move{}, Findings: result.Findings, Metadata: []kernels.Finding{}, Notes: result.Notes}
	for _, t := range result.Tensors {
		one := TensorRelation{Name: t.Name, Type: string(t.Format)}
		switch {
		case t.Outcome == compressed.Same:
			one.Class = ClassA
		case t.Follows():
			one.Class, one.Error = ClassB, finite(t.RMS)
		case t.Outcome == compressed.Bounded:
			one.Class, one.Error = ClassD, finite(t.RMS)
		}
		if one.Type == "" {
			one.Type = "as stored"
		}
		one.Unproven = unprovenOutcome(one.Class, string(t.Outcome))
		r.Types[one.Type]++
		r.Tensors = append(r.Tensors, one)
	}
	found, err := besideQuantized(ctx, source, target)
	if err != nil {
		return r, err
	}
	r.Metadata = append(r.Metadata, found...)
	if n := len(m.Scales); n > 0 {
		r.Metadata = append(r.Metadata, kernels.Finding{Check: checkScales, Where: m.Scales[0].Tensor.Name, Got: fmt.Sprintf("one of %d scales of activations or of the KV cache", n), Want: "none, or one that the weights determine",
			Hint: "a wrong one ruins the model as a wrong weight does; they come from calibration data"})
	}
	r.conclude(true)
	return r, nil
}

// unprovenOutcome says what remains unproven of a tensor of a quantized folder.
func unprovenOutcome(c Class, outcome string) string {
	switch c {
	case ClassA:
		return "Nothing: every bit follows from the source."
	case ClassB:
		return scalesChosen + ": every code follows from them, " + outcome + "."
	case ClassD:
		return "Everything but the error: each weight is " + outcome + "."
	}
	return "That this tensor follows from the source: it does not."
}

// conclude sets kind, class and what remains unproven from the tensors and findings.
func (r *Relation) conclude(quantized bool) {
	r.Recipe = RecipeUse{Differences: []string{}, Others: []string{}, Types: countedTypes(r.Types)}
	r.Class = ClassA
	for _, t := range r.Tensors {
		if weaker[t.Class] > weaker[r.Class] {
			r.Class = t.Class
		}
	}
	switch {
	case len(r.Findings) > 0 || r.Class == None || len(r.Tensors) == 0:
		r.Kind, r.Class = NotDerived, None
	case r.Class == ClassD:
		r.Kind = ErrorOnly
	case quantized:
		r.Kind = Quantization
	case len(r.Metadata) > 0:
		r.Kind = MetadataDiffers
	default:
		r.Kind = Identical
	}
	r.Unproven = unprovenFile(*r)
}

// sameWeights compares two folders of quantized matrices whatever tool stored them.
func sameWeights(ctx context.Context, a, b fs.FS) (Relation, error) {
	one, err := compressed.Open(a)
	if err != nil {
		return Relation{}, &SourceError{err}
	}
	defer one.Close()
	other, err := compressed.Open(b)
	if err != nil {
		return Relation{}, fmt.Errorf("target: %w", err)
	}
	defer other.Close()
	same, err := compressed.SameWeights(ctx, one, other)
	if err != nil {
		return Relation{}, err
	}
	r := Relation{
		Class: ClassA, Types: map[string]int{}, Tensors: []TensorRelation{}, Moved: []Move{}, Findings: same.Findings, Metadata: []kernels.Finding{}, Notes: []string{},
		Unproven: "Nothing about the weights: every one is the same.", Recipe: RecipeUse{Differences: []string{}, Others: []string{}}, Same: &same,
	}
	switch same.Relation {
	case compressed.Identical:
		r.Kind = Identical
	case compressed.Serialization:
		r.Kind = Serialization
	case compressed.Fewer:
		if r.Kind = FewerScales; len(same.Added) > 0 {
			r.Kind, r.Unproven = MoreScales, "Nothing about the weights; where the scales that the target alone has come from is not known."
		}
	default:
		r.Kind, r.Class, r.Unproven = NotDerived, None, "That both hold the same weights: they do not."
	}
	err = r.besideFolders(ctx, a, b, func(file, key string) bool {
		return r.Kind != Identical && (file == "hf_quant_config.json" || file == "config.json" && ownKeys[key])
	})
	return r, err
}
