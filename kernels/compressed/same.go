package compressed

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/folder"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// Relation is what two quantized folders are to one another.
type Relation string

const (
	Identical     Relation = "identical"                                    // the same names and bits
	Serialization Relation = "the same weights, stored in another way"      // names, shapes or reciprocals differ, no weight does
	Fewer         Relation = "the same weights, without some of its scales" // scales of activations or of the KV cache are in one folder only
	Different     Relation = "other weights"
)

// Sameness is the comparison of two quantized folders, a and b.
type Sameness struct {
	Relation Relation `json:"relation"`
	// Renamed are parts that b has under another name: a's to b's.
	Renamed map[string]string `json:"renamed"`
	// Reciprocal are b's scales that are the float32 reciprocal of a's, or a's of b's.
	Reciprocal []string `json:"reciprocal"`
	// Reshaped are b's scales that have another shape or type for the same numbers.
	Reshaped []string `json:"reshaped"`
	// Missing are the scales beside the weights that a alone has, Added those that b alone has.
	Missing  []string          `json:"missing"`
	Added    []string          `json:"added"`
	Findings []kernels.Finding `json:"findings"`
	Tensors  int               `json:"tensors"` // compared
	Verdict  kernels.Verdict   `json:"verdict"` // failed with a finding
}

// SameWeights proves that two quantized folders hold the same weights: the same
// codes and block scales bit by bit, the same global scales or reciprocals that
// are correctly rounded in one of the two directions, every other tensor the
// same bits. Scales of activations and of the KV cache may be missing on one
// side, and are then named. The error is that of reading or of ctx.
func SameWeights(ctx context.Context, a, b *Model) (Sameness, error) {
	s := Sameness{Renamed: map[string]string{}, Reciprocal: []string{}, Reshaped: []string{}, Missing: []string{}, Added: []string{}, Findings: []kernels.Finding{}}
	for _, step := range []func(context.Context, *Model, *Model) error{s.matrices, s.plain, s.scales} {
		if err := step(ctx, a, b); err != nil {
			return s, err
		}
	}
	s.Verdict = kernels.Passed
	switch {
	case len(s.Findings) > 0:
		s.Relation, s.Verdict = Different, kernels.Failed
	case len(s.Missing)+len(s.Added) > 0:
		s.Relation = Fewer
	case len(s.Renamed)+len(s.Reciprocal)+len(s.Reshaped) > 0:
		s.Relation = Serialization
	default:
		s.Relation = Identical
	}
	return s, nil
}

func (s *Sameness) find(check, where, got, want string) {
	s.Findings = append(s.Findings, kernels.Finding{Check: check, Where: where, Got: got, Want: want})
}

// renamed notes a part that has two names.
func (s *Sameness) renamed(a, b safetensors.SnapshotTensor) {
	s.Tensors++
	if a.Name != b.Name {
		s.Renamed[a.Name] = b.Name
	}
}

func (s *Sameness) matrices(ctx context.Context, a, b *Model) error {
	theirs := map[string]Matrix{}
	for _, m := range b.Matrices {
		theirs[m.Name] = m
	}
	for _, x := range a.Matrices {
		y, ok := theirs[x.Name]
		delete(theirs, x.Name)
		switch {
		case !ok:
			s.find(CheckMissing, x.Name, "quantized in the first folder only", "quantized in both")
			continue
		case x.Format != y.Format || x.Rows != y.Rows || x.Columns != y.Columns:
			s.find(CheckTensor, x.Name, fmt.Sprintf("%s, %d by %d", y.Format, y.Rows, y.Columns), fmt.Sprintf("%s, %d by %d", x.Format, x.Rows, x.Columns))
			continue
		}
		s.renamed(x.Codes, y.Codes)
		s.renamed(x.Scale, y.Scale)
		if err := s.bytes(ctx, CheckRebuilt, a, x.Codes, b, y.Codes); err != nil {
			return err
		}
		if err := s.numbers(ctx, a, x, b, y); err != nil {
			return err
		}
		if x.Global == nil {
			continue
		}
		s.renamed(*x.Global, *y.Global)
		if err := s.one(a, *x.Global, x.Reciprocal, b, *y.Global, y.Reciprocal); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		s.find(CheckMissing, name, "quantized in the second folder only", "quantized in both")
	}
	return nil
}

// bytes compares two tensors of one size.
func (s *Sameness) bytes(ctx context.Context, check string, a *Model, x safetensors.SnapshotTensor, b *Model, y safetensors.SnapshotTensor) error {
	at, err := folder.FirstDifference(ctx, a.Snapshot.Section(x), b.Snapshot.Section(y))
	if err == nil && at >= 0 {
		s.find(check, fmt.Sprintf("%s: byte %d of %d", y.Name, at, y.End-y.Begin), "other bits", "those of "+x.Name)
	}
	return err
}

// numbers compares the scales of blocks: the bits where type and shape are the
// same, else the numbers where the layout is.
func (s *Sameness) numbers(ctx context.Context, a *Model, x Matrix, b *Model, y Matrix) error {
	if x.Layout == PerBlock && y.Layout == PerBlock && (x.BlockRows != y.BlockRows || x.BlockColumns != y.BlockColumns) {
		s.find(CheckScale, y.Scale.Name, fmt.Sprintf("blocks of %d by %d", y.BlockRows, y.BlockColumns), fmt.Sprintf("%d by %d, as %s", x.BlockRows, x.BlockColumns, x.Scale.Name))
		return nil
	}
	if x.Layout == y.Layout && x.Scale.DType == y.Scale.DType && slices.Equal(x.Scale.Shape, y.Scale.Shape) {
		return s.bytes(ctx, CheckScale, a, x.Scale, b, y.Scale)
	}
	n := x.Scale.Elements()
	if n != y.Scale.Elements() || x.Layout != y.Layout {
		s.find(CheckScale, y.Scale.Name, fmt.Sprintf("%v by %s", y.Scale.Shape, y.Layout), fmt.Sprintf("%v by %s, as %s", x.Scale.Shape, x.Layout, x.Scale.Name))
		return nil
	}
	s.Reshaped = append(s.Reshaped, y.Scale.Name)
	p, q := newScales(a.Snapshot, x.Scale), newScales(b.Snapshot, y.Scale)
	for i := range n {
		if i%page == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		u, err := p.at(i)
		if err != nil {
			return err
		}
		v, err := q.at(i)
		if err != nil {
			return err
		}
		if math.Float32bits(u) != math.Float32bits(v) {
			s.find(CheckScale, fmt.Sprintf("%s: scale %d of %d", y.Scale.Name, i, n), fmt.Sprint(v), fmt.Sprintf("%v, as %s", u, x.Scale.Name))
			return nil
		}
	}
	return nil
}

// one compares two numbers that may be reciprocals.
func (s *Sameness) one(a *Model, x safetensors.SnapshotTensor, over bool, b *Model, y safetensors.SnapshotTensor, under bool) error {
	u, err := newScales(a.Snapshot, x).at(0)
	if err != nil {
		return err
	}
	v, err := newScales(b.Snapshot, y).at(0)
	if err != nil {
		return err
	}
	switch {
	case over == under && math.Float32bits(u) == math.Float32bits(v):
		if x.DType != y.DType || !slices.Equal(x.Shape, y.Shape) {
			s.Reshaped = append(s.Reshaped, y.Name)
		}
	case over != under && (v == 1/u || u == 1/v):
		s.Reciprocal = append(s.Reciprocal, y.Name)
	default:
		want := "the same number"
		if over != under {
			want = "its reciprocal"
		}
		s.find(CheckScale, y.Name, fmt.Sprint(v), fmt.Sprintf("%s as %s, which is %v", want, x.Name, u))
	}
	return nil
}

func (s *Sameness) plain(ctx context.Context, a, b *Model) error {
	theirs := map[string]safetensors.SnapshotTensor{}
	for _, t := range b.Plain {
		theirs[t.Name] = t
	}
	for _, x := range a.Plain {
		y, ok := theirs[x.Name]
		delete(theirs, x.Name)
		switch {
		case !ok:
			s.find(CheckMissing, x.Name, "in the first folder only", "in both")
			continue
		case x.DType != y.DType || !slices.Equal(x.Shape, y.Shape):
			s.find(CheckUntouched, x.Name, fmt.Sprintf("%s %v", y.DType, y.Shape), fmt.Sprintf("%s %v", x.DType, x.Shape))
			continue
		}
		s.Tensors++
		if err := s.bytes(ctx, CheckUntouched, a, x, b, y); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		s.find(CheckMissing, name, "in the second folder only", "in both")
	}
	return nil
}

// scales compares the scales of activations and of the KV cache.
func (s *Sameness) scales(ctx context.Context, a, b *Model) error {
	theirs := map[string]Scale{}
	for _, t := range b.Scales {
		theirs[t.Key] = t
	}
	for _, x := range a.Scales {
		if err := ctx.Err(); err != nil {
			return err
		}
		y, ok := theirs[x.Key]
		delete(theirs, x.Key)
		if !ok {
			s.Missing = append(s.Missing, x.Tensor.Name)
			continue
		}
		s.renamed(x.Tensor, y.Tensor)
		if x.Tensor.Elements() != 1 || y.Tensor.Elements() != 1 {
			if x.Tensor.DType != y.Tensor.DType || x.Reciprocal != y.Reciprocal || x.Tensor.Elements() != y.Tensor.Elements() {
				s.find(CheckScale, y.Tensor.Name, fmt.Sprintf("%s %v", y.Tensor.DType, y.Tensor.Shape), fmt.Sprintf("%s %v, as %s", x.Tensor.DType, x.Tensor.Shape, x.Tensor.Name))
				continue
			}
			if err := s.bytes(ctx, CheckScale, a, x.Tensor, b, y.Tensor); err != nil {
				return err
			}
			continue
		}
		if err := s.one(a, x.Tensor, x.Reciprocal, b, y.Tensor, y.Reciprocal); err != nil {
			return err
		}
	}
	for _, y := range b.Scales {
		if _, only := theirs[y.Key]; only {
			s.Added = append(s.Added, y.Tensor.Name)
		}
	}
	return nil
}
