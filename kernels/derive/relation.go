package derive

import (
	"context"
	"fmt"
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
	ClassB Class = "B" // codes exact in every block, scales within the bounds of another build
	ClassC Class = "C" // codes exact in every block, scales free: the importance matrix is not at hand
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
func Compare(ctx context.Context, source, target Input, o Options) (Relation, error) {
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
	inv, err := compareTensors(ctx, src, dst, o)
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
		s, result := src.byName[t.name], inv.results[t.name]
		if s == nil || result.state == misplaced {
			continue
		}
		one := TensorRelation{Name: t.name, SourceType: s.typ.String(), Type: t.typ.String(), Class: result.class, Error: result.relative}
		r.Tensors = append(r.Tensors, one)
	}
	r.Recipe = countedTypes(matrices)
	r.Kind, r.Class = judgeRelation(src, dst, inv, r)
	return r, nil
}

func judgeRelation(src, dst *side, inv *inventory, r Relation) (Kind, Class) {
	if inv.count(differs)+inv.count(misplaced) > 0 || len(inv.results) == 0 {
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
