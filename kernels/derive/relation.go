package derive

import (
	"context"
	"fmt"
	"math"
	"sort"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/convert"
)

// Kind is what a target is to a source.
type Kind string

const (
	Identical       Kind = "identical"                   // the same tensors, types, bits and metadata
	MetadataDiffers Kind = "metadata differs"            // the same tensors, types and bits; keys differ
	Conversion      Kind = "exact conversion"            // every bit follows from the source, in another unquantized form
	Quantization    Kind = "quantization"                // every bit follows from the source by the quantizer
	ErrorOnly       Kind = "quantization not recomputed" // tensors of types that are not recomputed; only their error is known
	NotDerived      Kind = "not derived"                 // a tensor is missing, extra, of another shape, or has bits that do not follow
)

// Class is the class of proof for a tensor or for a whole file.
type Class string

const (
	ClassA Class = "A" // every bit recomputed
	ClassD Class = "D" // the error alone: reported, never called verified
	None   Class = ""  // differs, or nothing could be said
)

// TensorRelation is what one tensor of the target is to the source's.
type TensorRelation struct {
	Name       string `json:"name"`
	SourceType string `json:"sourceType"`
	Type       string `json:"type"`
	Class      Class  `json:"class"`
	// Error is the root mean square of the difference over that of the source,
	// for tensors that are not class A and whose types can both be read; else null.
	Error *float64 `json:"relativeRMSError"`
}

// Relation is what a target is to a source.
type Relation struct {
	Kind    Kind             `json:"relation"`
	Class   Class            `json:"class"`  // the weakest of the tensors
	Recipe  string           `json:"recipe"` // types of the target's matrices with their number: "Q8_0 (38)"
	Types   map[string]int   `json:"types"`  // of all of the target's tensors
	Tensors []TensorRelation `json:"tensors"`
	// Findings are the tensors that do not follow from the source.
	Findings []kernels.Finding `json:"findings"`
	// Metadata are the keys that do not follow from the source. They do not
	// change the relation of the weights, apart from identical.
	Metadata []kernels.Finding `json:"metadata"`
}

// Compare tells what a target is to a source, for snapshots and GGUF files on
// either side. It plants no controls: it is a measurement for a reader, not
// evidence. An error means that a side could not be read at all.
func Compare(ctx context.Context, source, target Input) (Relation, error) {
	src, err := open(source)
	if err != nil {
		return Relation{}, fmt.Errorf("source: %w", err)
	}
	defer src.close()
	dst, err := open(target)
	if err != nil {
		return Relation{}, fmt.Errorf("target: %w", err)
	}
	defer dst.close()
	inv, err := compareTensors(ctx, src, dst)
	if err != nil {
		return Relation{}, err
	}
	r := Relation{Types: inv.types, Tensors: []TensorRelation{}, Findings: inv.findings, Metadata: compareMetadata(src, dst)}
	matrices := map[string]int{}
	for i := range dst.tensors {
		t := &dst.tensors[i]
		if convert.Quantizes(t.name, t.dims) {
			matrices[t.typ.String()]++
		}
		s := src.byName[t.name]
		if s == nil || inv.states[t.name] == misplaced {
			continue
		}
		one := TensorRelation{Name: t.name, SourceType: s.typ.String(), Type: t.typ.String()}
		if inv.states[t.name] == exact {
			one.Class = ClassA
		} else if one.Error, err = relativeError(ctx, s, t); err != nil {
			return Relation{}, err
		} else if inv.states[t.name] == undecided && one.Error != nil {
			one.Class = ClassD
		}
		r.Tensors = append(r.Tensors, one)
	}
	r.Recipe = countedTypes(matrices)
	r.Kind, r.Class = judgeRelation(src, dst, inv, r)
	return r, nil
}

func judgeRelation(src, dst *side, inv *inventory, r Relation) (Kind, Class) {
	if inv.count(differs)+inv.count(misplaced) > 0 || len(inv.states) == 0 {
		return NotDerived, None
	}
	if inv.count(undecided) > 0 {
		class := ClassD
		for _, t := range r.Tensors {
			if t.Class == None {
				class = None
			}
		}
		return ErrorOnly, class
	}
	same, quantized := (src.model == nil) == (dst.model == nil), false
	for _, t := range dst.tensors {
		s := src.byName[t.name]
		if s == nil || s.typ != t.typ {
			same = false
			quantized = quantized || t.typ.Quantized()
		}
	}
	switch {
	case quantized:
		return Quantization, ClassA
	case !same:
		return Conversion, ClassA
	case len(r.Metadata) > 0:
		return MetadataDiffers, ClassA
	}
	return Identical, ClassA
}

func countedTypes(types map[string]int) string {
	names := make([]string, 0, len(types))
	for name := range types {
		names = append(names, name)
	}
	sort.Slice(names, func(i, j int) bool {
		return types[names[i]] > types[names[j]] || types[names[i]] == types[names[j]] && names[i] < names[j]
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s (%d)", name, types[name])
	}
	return strings.Join(names, ", ")
}

// relativeError is the root mean square of target minus source over that of
// the source, in float64. Nil where a type cannot be read or the source is zero or not finite.
func relativeError(ctx context.Context, src, dst *tensor) (*float64, error) {
	if src.rows.Codec.Dequantize == nil || dst.rows.Codec.Dequantize == nil {
		return nil, nil
	}
	var difference, power float64
	var a, b reader
	for at := int64(0); at < src.rows.Weights(); at += chunk {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n := min(chunk, src.rows.Weights()-at)
		x, err := a.floats(src, at, n)
		if err != nil {
			return nil, fmt.Errorf("source: tensor %s: %w", src.origin, err)
		}
		y, err := b.floats(dst, at, n)
		if err != nil {
			return nil, fmt.Errorf("target: tensor %s: %w", dst.origin, err)
		}
		for i := range x {
			d := float64(y[i]) - float64(x[i])
			difference += float64(d * d)
			power += float64(float64(x[i]) * float64(x[i]))
		}
	}
	e := math.Sqrt(difference / power)
	if math.IsNaN(e) || math.IsInf(e, 0) {
		return nil, nil
	}
	return &e, nil
}

// reader reads weights of any type that has a codec.
type reader struct {
	raw    []byte
	buffer []float32
}

func (r *reader) floats(t *tensor, at, n int64) ([]float32, error) {
	r.raw, r.buffer = grow(r.raw, t.rows.Codec.Size(n)), grow(r.buffer, n)
	if err := t.rows.Raw(r.raw, at); err != nil {
		return nil, err
	}
	t.rows.Codec.Dequantize(r.buffer, r.raw)
	return r.buffer, nil
}
