package recipe

import "github.com/weighmaster/weighmaster/kernels/gguf"

// place is where a tensor stands, as far as rules ask.
type place struct {
	model  *Model
	matrix bool // an importance matrix is given
	// index counts the tensors of the part so far, of of them; in mixtures of experts
	// the feed-forward ones count layers by their names instead.
	index, of int
}

// when is a condition of a rule.
type when func(p place) bool

// choice gives a type where its condition holds; nil always holds.
type choice struct {
	when when
	to   gguf.Type
}

// rules are a recipe's exceptions from its default type: of a part's choices the
// first that holds counts.
type rules map[category][]choice

func all(conditions ...when) when {
	return func(p place) bool {
		for _, c := range conditions {
			if !c(p) {
				return false
			}
		}
		return true
	}
}

func not(c when) when { return func(p place) bool { return !c(p) } }

var (
	first = func(n int) when { return func(p place) bool { return p.index < n } }
	// firstOf holds for the first of n equal shares of the tensors.
	firstOf = func(n int) when { return func(p place) bool { return p.index < p.of/n } }
	middle  = when(func(p place) bool { return p.index >= p.of/8 && p.index < 7*p.of/8 })
	// boosted holds for the first and the last eighth, and each third of the rest.
	boosted = when(func(p place) bool {
		eighth := p.of / 8
		return p.index < eighth || p.index >= 7*p.of/8 || (p.index-eighth)%3 == 2
	})
	grouped = when(func(p place) bool { return p.model.grouping() >= 4 })
	experts = when(func(p place) bool { return p.model.Experts == 8 })
	falcon  = when(func(p place) bool { return p.model.Architecture == "falcon" })
	matrix  = when(func(p place) bool { return p.matrix })

	// eight and plain are models other than Falcon with eight experts, and without.
	eight = all(not(falcon), experts)
	plain = all(not(falcon), not(experts))
)
