package derive

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/compressed"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/recipe"
)

// Kind is what a target is to a source.
type Kind string

const (
	Identical       Kind = "identical"                                // the same tensors, types, bits and metadata
	TemplateDiffers Kind = "chat template differs"                    // the same tensors, types and bits; of the keys only the chat template differs
	MetadataDiffers Kind = "metadata differs"                         // the same tensors, types and bits; keys differ
	Conversion      Kind = "exact conversion"                         // every bit follows from the source, in another unquantized form
	Quantization    Kind = "quantization"                             // the codes of every block follow from the source by the quantizer; see the class
	ErrorOnly       Kind = "quantization not recomputed"              // tensors of types that are not recomputed; only their error is known
	RowsMoved       Kind = "encoded rows moved"                       // the source's encoded rows, some in the other rotary order; nothing was quantized again
	Serialization   Kind = "same weights, stored in another way"      // two quantized folders; names, shapes or reciprocals differ
	FewerScales     Kind = "same weights, without some of its scales" // the same, scales of activations or of the KV cache in the source only
	MoreScales      Kind = "same weights, with scales of its own"     // the same, but the target has scales of activations or of the KV cache that the source does not have
	ContentFound    Kind = "content found, names not mapped"          // no mapping for the architecture; every tensor's rows are on both sides
	ContentPartly   Kind = "content found in part, names not mapped"  // the same, with tensors left over on a side
	NotDerived      Kind = "not derived"                              // a tensor is missing, extra, of another shape, or has bits that do not follow
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

// weaker orders classes from the strongest to none.
var weaker = map[Class]int{ClassA: 0, ClassB: 1, ClassC: 2, ClassD: 3, None: 4}

// TensorRelation is what one tensor of the target is to the source's.
type TensorRelation struct {
	Name       string `json:"name"`
	SourceType string `json:"sourceType"`
	Type       string `json:"type"`
	Class      Class  `json:"class"`
	// Build is the build of the quantizers beside which the tensor was recomputed, empty where all agree.
	Build  string `json:"build"`
	Matrix bool   `json:"matrix"` // recomputed with the importance matrix at hand
	// Blocks counts the tensor's blocks, Differing those that are not the recomputed ones.
	Blocks    int64 `json:"blocks"`
	Differing int64 `json:"blocksDiffering"`
	// Error is the root mean square of the difference over that of the source,
	// for tensors that are not class A and whose types can both be read; else null.
	Error *float64 `json:"relativeRMSError"`
	// ErrorRatio is the tensor's error over that of the recomputed one, null where that is not known.
	ErrorRatio *float64 `json:"errorOverRecomputed"`
	Unproven   string   `json:"unproven"` // what remains unproven, in one sentence
}

// Relation is what a target is to a source.
type Relation struct {
	Kind     Kind   `json:"relation"`
	Class    Class  `json:"class"`    // the weakest of the tensors
	Unproven string `json:"unproven"` // what remains unproven, in one sentence
	// Build is the one build of the quantizers that makes every tensor bit for bit,
	// empty where none does or where all builds agree.
	Build        string               `json:"build"`
	Intermediate string               `json:"intermediate"` // type that the weights passed through and that changed them, empty for none
	Matrix       *MatrixUse           `json:"matrix"`       // null where no matrix is at hand or claimed
	Recipe       RecipeUse            `json:"recipe"`
	Whole        *Whole               `json:"whole"` // null unless every tensor is class A and the target is one GGUF file
	Types        map[string]int       `json:"types"` // of all of the target's tensors
	Tensors      []TensorRelation     `json:"tensors"`
	Same         *compressed.Sameness `json:"same"`  // of two folders of quantized matrices, else null
	Notes        []string             `json:"notes"` // known changes, in plain sentences
	// Change says in one sentence what happened between two files of one form, empty where there is nothing to say.
	Change       string `json:"change"`
	TemplateDiff string `json:"templateDiff"` // unified diff of the chat templates, empty where they agree
	Moved        []Move `json:"moved"`        // tensors whose rows were moved
	// Bijection is what both sides have in common by content, where an architecture has no mapping; else null.
	Bijection *Bijection `json:"bijection"`
	// Findings are the tensors that do not follow from the source.
	Findings []kernels.Finding `json:"findings"`
	// Metadata are the keys that do not follow from the source. They do not
	// change the relation of the weights, apart from identical; see [Relation.MetadataVerdict].
	Metadata []kernels.Finding `json:"metadata"`
}

// MetadataVerdict judges what a conversion or a quantization was given beside its weights: failed where a key,
// a token, the chat template or another file says something else than the source, so that the same weights
// are another model; undecided where the vocabulary could not be derived; passed else, and for two files of one form,
// where the difference is the answer. Names and the like (general.…, apart from the architecture) are not judged.
func (r Relation) MetadataVerdict() kernels.Verdict {
	verdict := kernels.Passed
	if r.Kind != Conversion && r.Kind != Quantization && r.Kind != ErrorOnly {
		return verdict
	}
	for _, f := range r.Metadata {
		switch {
		case f.Check == checkTokenizer, f.Check == checkScales:
			if verdict == kernels.Passed {
				verdict = kernels.Undecided
			}
		case f.Where != "key general.architecture" && strings.HasPrefix(f.Where, "key general."):
		default:
			verdict = kernels.Failed
		}
	}
	return verdict
}

// Compare tells what a target is to a source, for snapshots and GGUF files on
// either side. It plants no controls: it is a measurement for a reader, not
// evidence. A target that is malformed or truncated is not derived; an error means
// that a side could not be read at all; [*UncheckedError] that the sides are not compared or that the importance matrix at hand cannot be used.
func Compare(ctx context.Context, source, target Input, o Options) (Relation, error) {
	if r, done, err := compareFolders(ctx, source, target); done || err != nil {
		return r, err
	}
	src, err := open(source)
	if err != nil {
		return Relation{}, &SourceError{err}
	}
	defer src.close()
	dst, err := open(target)
	if malformed(err) {
		return unreadable(err), nil
	}
	if err != nil {
		return Relation{}, fmt.Errorf("target: %w", err)
	}
	defer dst.close()
	r, err := compareSides(ctx, src, dst, o)
	if err != nil || source.Snapshot == nil || target.Snapshot == nil || r.Kind == NotDerived {
		return r, err
	}
	mapped, kind := src.model != nil && dst.model != nil, r.Kind
	skip := func(file, key string) bool {
		return mapped && templatesCompared(file, key) || kind == Conversion && file == "config.json" && ownKeys[key]
	}
	err = r.besideFolders(ctx, source.Snapshot, target.Snapshot, skip)
	return r, err
}

// compareSides compares two opened sides.
func compareSides(ctx context.Context, src, dst *side, o Options) (Relation, error) {
	if unmapped(src, dst) {
		return compareContent(ctx, src, dst)
	}
	inv, err := compareTensors(ctx, src, dst, o)
	if err != nil {
		return Relation{}, err
	}
	r := Relation{Types: inv.types, Tensors: []TensorRelation{}, Notes: []string{}, Findings: inv.findings}
	if r.Metadata, err = compareMetadata(ctx, src, dst); err != nil {
		return Relation{}, err
	}
	for i := range dst.tensors {
		t := &dst.tensors[i]
		switch s, result := src.byName[t.name], inv.results[t.name]; {
		case s != nil && result.state != misplaced:
			r.Tensors = append(r.Tensors, result.relation(typeName(s.typ), t))
		case s == nil && (result.state == exact || result.state == bounded):
			r.Tensors = append(r.Tensors, result.relation(computedFrom, t))
		}
	}
	r.Kind, r.Class = judgeRelation(src, dst, inv, r)
	inv.name(&r)
	r.Matrix = matrixUse(dst, inv, o)
	var match recipe.Match
	r.Recipe, match = recognize(dst, r.Matrix != nil && (r.Matrix.Claim != "" || len(r.Matrix.Used) > 0))
	if r.Class == ClassA && r.Kind != RowsMoved {
		if r.Whole, err = whole(ctx, src, dst, inv, match, o); err != nil {
			return Relation{}, err
		}
	}
	if r.Intermediate != "" {
		r.Notes = append(r.Notes, fmt.Sprintf("The weights passed through %s, which rounded some of them, and makes those beyond its range infinite or zero: they are not what a direct conversion gives.", r.Intermediate))
	}
	r.Unproven = unprovenFile(r)
	r.Change, r.TemplateDiff, r.Moved = change(src, dst, inv, r), templateDiff(src, dst), inv.moves()
	return r, nil
}

func (inv *inventory) moves() []Move {
	list := []Move{}
	for _, name := range sortedNames(inv.results) {
		if m := inv.results[name].move; m != nil {
			list = append(list, *m)
		}
	}
	return list
}

// relation shows a result.
func (r *result) relation(sourceType string, t *tensor) TensorRelation {
	one := TensorRelation{Name: t.name, SourceType: sourceType, Type: typeName(t.typ), Class: r.class, Error: r.relative}
	one.Blocks = t.rows.Weights() / int64(t.rows.Codec.Weights)
	if r.pair != nil {
		one.Differing = r.differing
		one.Matrix = r.how.matrix
		if r.pair.builds() > 1 {
			one.Build = string(r.how.build)
		}
	}
	if r.measured != nil {
		one.ErrorRatio = finite(r.measured.ratio())
	}
	one.Unproven = r.unproven(one)
	return one
}

// judgeRelation names the relation and its class: the weakest of all tensors.
func judgeRelation(src, dst *side, inv *inventory, r Relation) (Kind, Class) {
	if inv.count(differs)+inv.count(misplaced) > 0 || len(inv.results) == 0 {
		return NotDerived, None
	}
	class := ClassA
	for _, t := range inv.results {
		if weaker[t.class] > weaker[class] {
			class = t.class
		}
	}
	same, quantized := src.snapshot() == dst.snapshot(), false
	for _, t := range dst.tensors {
		s := src.byName[t.name]
		if s == nil || s.typ != t.typ {
			same = false
			quantized = quantized || t.typ.Quantized()
		}
	}
	switch {
	case inv.count(undecided) > 0:
		return ErrorOnly, class
	case inv.count(reordered) > 0 && same:
		return RowsMoved, class
	case inv.count(reordered) > 0:
		return NotDerived, None
	case quantized && class == ClassA && !inv.oneBuild():
		return Quantization, ClassB
	case quantized:
		return Quantization, class
	case !same:
		return Conversion, class
	case len(r.Metadata) == 1 && r.Metadata[0].Where == "key "+templateKey:
		return TemplateDiffers, class
	case len(r.Metadata) > 0:
		return MetadataDiffers, class
	}
	return Identical, class
}

// builds is the number of builds whose bits can differ for this pair.
func (p *pair) builds() int {
	if p.same() {
		return 1
	}
	return builds(p.dst.typ)
}

// oneBuild tells that one way of making fits every tensor that was recomputed.
func (inv *inventory) oneBuild() bool {
	for _, r := range inv.results {
		if r.pair != nil && !r.pair.same() && r.how != inv.file.of(r.pair) {
			return false
		}
	}
	return true
}

// name tells the build and the intermediate that fit the whole file.
func (inv *inventory) name(r *Relation) {
	if r.Class == None || !inv.oneBuild() {
		return
	}
	for _, t := range inv.results {
		if t.pair == nil || t.pair.same() || t.state != exact {
			continue
		}
		if t.pair.builds() > 1 && r.Class == ClassA {
			r.Build = string(inv.file.build)
		}
		if t.how.via != gguf.F32 {
			r.Intermediate = t.how.via.String()
		}
	}
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
