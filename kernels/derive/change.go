package derive

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// change says in one sentence what happened between two files of one form, as
// of an upload and the one that replaced it. Empty where there is nothing to say.
func change(src, dst *side, inv *inventory, r Relation) string {
	if src.snapshot() != dst.snapshot() {
		return ""
	}
	var missing, other, retyped []string
	extra, same, far, near := 0, 0, 0, 0
	for _, t := range src.tensors {
		d, result := dst.byName[t.name], inv.results[t.name]
		switch {
		case d == nil:
			missing = append(missing, t.name)
		case result.state == exact && t.typ == d.typ:
			same++
		case t.typ != d.typ:
			retyped = append(retyped, t.name)
			far, near = tell(result, far, near)
		default:
			other = append(other, t.name)
			far, near = tell(result, far, near)
		}
	}
	for _, t := range dst.tensors {
		if src.byName[t.name] == nil {
			extra++
		}
	}
	switch total := len(src.tensors); {
	case r.Kind == Identical || r.Kind == RowsMoved:
		return ""
	case r.Kind == TemplateDiffers:
		return "the chat template only"
	case r.Kind == MetadataDiffers:
		return "metadata only: " + names(keysOf(r))
	case extra == 0 && len(missing) > 0 && len(other) == 0 && len(retyped) == 0:
		return fmt.Sprintf("tensors are missing: %d of %d are there and the same; missing: %s", same, total, names(missing))
	case len(missing) > 0 || extra > 0:
		return fmt.Sprintf("another set of tensors: %d of the source's %d are missing, %d are new", len(missing), total, extra)
	case len(retyped) > 0 && (r.Kind == Conversion || r.Kind == Quantization):
		return ""
	case len(retyped) > 0 && far > near:
		return "another recipe and another source: the weights of most tensors have nothing to do with each other"
	case len(retyped) > 0:
		return fmt.Sprintf("another recipe: %s; %d tensors have another type, their weights lie near each other", recipes(src, r), len(retyped))
	case len(other) == 0:
		return ""
	case far > near:
		return fmt.Sprintf("another source: %d of %d tensors differ, and the weights of most have nothing to do with each other", len(other), len(src.tensors))
	case 2*len(other) <= total:
		return fmt.Sprintf("these tensors: %s; the other %d are the same", names(other), same)
	}
	return fmt.Sprintf("%d of %d tensors differ, but their weights lie near each other: the same source made again, with another importance matrix, another build or from another precision", len(other), len(src.tensors))
}

// farError is the relative error from which two tensors are taken to come from
// different sources. The coarsest honest types stay below it.
const farError = 0.9

func tell(r *result, far, near int) (int, int) {
	switch {
	case r.relative == nil:
	case *r.relative >= farError:
		far++
	default:
		near++
	}
	return far, near
}

// recipes names the recipes of both sides.
func recipes(src *side, r Relation) string {
	before, _ := recognize(src, claim(src.kvs) != "")
	return fmt.Sprintf("%s before, %s now", before, r.Recipe)
}

// keysOf lists the keys that differ.
func keysOf(r Relation) []string {
	var list []string
	for _, f := range r.Metadata {
		list = append(list, strings.TrimPrefix(f.Where, "key "))
	}
	return list
}

// templateDiff is a unified diff of both sides' chat templates, empty where they agree.
func templateDiff(src, dst *side) string {
	a, b := templateOf(src), templateOf(dst)
	if a == b {
		return ""
	}
	return udiff.Unified("source "+templateKey, "target "+templateKey, a, b)
}

func templateOf(s *side) string {
	v, _ := kv(s.kvs, templateKey)
	text, _ := v.Text()
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}

// unreadable is the relation of a target that breaks its format or is not whole.
func unreadable(err error) Relation {
	r := Relation{
		Kind: NotDerived, Unproven: "Everything: the target is not a whole file.", Types: map[string]int{}, Tensors: []TensorRelation{}, Moved: []Move{}, Notes: []string{}, Metadata: []kernels.Finding{},
		Recipe:   RecipeUse{Differences: []string{}, Others: []string{}},
		Findings: []kernels.Finding{{Check: "format", Where: "target", Got: err.Error(), Want: "a complete GGUF file", Hint: "fetch or make the file again"}},
	}
	var short *gguf.TruncatedError
	if errors.As(err, &short) {
		r.Change = fmt.Sprintf("interrupted: %d of %d tensors are whole; missing: %s", short.Total-len(short.Missing), short.Total, names(short.Missing))
	}
	return r
}
