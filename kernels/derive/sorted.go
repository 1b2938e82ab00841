package derive

import (
	"cmp"
	"maps"
	"slices"
)

func sortedNames[V any](m map[string]V) []string { return sortedKeys(m) }

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
