package derive

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/kernels/recipe"
)

// RecipeUse is the recipe that a target's types follow.
type RecipeUse struct {
	// Name is the recipe with its options as llama-quantize takes them, empty where the
	// target is no GGUF; the nearest one where Exact is false.
	Name        string   `json:"name"`
	Exact       bool     `json:"exact"`
	Differences []string `json:"differences"` // tensors whose type is not the recipe's
	Others      []string `json:"others"`      // recipes that fit as well, or the next nearest
	Claim       string   `json:"claim"`       // what is wrong with general.file_type, empty for nothing
	Types       string   `json:"types"`       // types of the matrices with their number: "Q8_0 (38)"
}

// String names the recipe, or how far the nearest is.
func (r RecipeUse) String() string {
	switch {
	case r.Name == "":
		return r.Types
	case !r.Exact:
		return fmt.Sprintf("nearest %s with %d tensors of other types", r.Name, len(r.Differences))
	}
	return r.Name
}

// recognize names the recipe of a GGUF's types.
func recognize(dst *side, matrix bool) (RecipeUse, recipe.Match) {
	counts := map[string]int{}
	for _, t := range dst.tensors {
		if convert.Quantizes(t.name, t.dims) {
			counts[typeName(t.typ)]++
		}
	}
	use := RecipeUse{Differences: []string{}, Others: []string{}, Types: countedTypes(counts)}
	if dst.snapshot() {
		return use, recipe.Match{}
	}
	model, err := recipe.ModelOf(dst.file)
	if err != nil {
		return use, recipe.Match{} // a header without the numbers that recipes look at
	}
	best, others := recipe.Recognize(model, nil, claimedFileType(dst), matrix)
	use.Name, use.Exact, use.Claim = nameOf(best), best.Exact, best.Claim(claimedFileType(dst))
	for _, d := range best.Differences {
		use.Differences = append(use.Differences, d.String())
	}
	for _, m := range others {
		name := nameOf(m)
		if !m.Exact {
			name = m.String()
		}
		if name != use.Name && !slices.Contains(use.Others, name) {
			use.Others = append(use.Others, name)
		}
	}
	return use, best
}

func nameOf(m recipe.Match) string {
	o := m.Options
	o.Matrix = false // shown by itself
	return strings.TrimSpace(m.Recipe + " " + o.String())
}

// claimedFileType is general.file_type, nil without one.
func claimedFileType(s *side) *uint32 {
	v, has := kv(s.kvs, "general.file_type")
	if n, ok := v.Uint(); has && ok && n <= 1<<31 {
		t := uint32(n)
		return &t
	}
	return nil
}
