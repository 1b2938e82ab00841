package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/schemas"
)

// notTested names what a record holds no measurement of. It is computed from
// the record alone: leaving a line out would show.
func notTested(rec schemas.CompletionRecord) []string {
	list := []string{}
	add := func(missing bool, format string, args ...any) {
		if missing {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	kernels, contexts, fixtures := map[string]bool{}, []int{}, 0
	scopes, backends := map[string]bool{}, []string{}
	hardware := false
	for _, v := range rec.Validation {
		for _, r := range v.Reports {
			kernels[r.Kernel] = true
		}
		contexts = append(contexts, v.Contexts...)
		for _, f := range v.Fixtures {
			fixtures += f.Total
		}
		for _, m := range v.Memory {
			scopes[m.Scope] = true
		}
		if v.Uses == "evaluate" && !slices.Contains(backends, v.Backend) {
			backends = append(backends, v.Backend)
		}
		hardware = hardware || len(v.Hardware) > 0
	}
	add(rec.Source.Licence == "absent", "the publisher's licence: none is declared")
	for _, c := range rec.Corpora {
		add(c.Licence == "absent", "the licence of %s: none is stated", c.Name)
	}
	add(!kernels[parityKernel], "tokenizer parity case by case")
	add(!kernels[placementKernel], "where a runtime's weights lie (placement)")
	add(len(rec.Boxes) == 0, "the box of the tools: no probe")
	if len(contexts) == 0 {
		add(true, "retrieval at any context length")
	} else {
		add(true, "contexts of more than %d tokens", slices.Max(contexts))
	}
	add(len(backends) == 0, "answers on any backend")
	add(len(backends) > 0, "backends other than %s", strings.Join(backends, ", "))
	add(!hardware, "the hardware: no run recorded any")
	add(!scopes["largest sample"], "memory samples")
	add(!scopes["high-water mark of one process"], "memory high-water marks")
	add(true, "generation speed, concurrent requests, tool use beyond the fixtures") // no kernel measures them
	add(true, "anything beyond the %d fixtures that are listed; they do not establish that the model suits a purpose", fixtures)
	for _, o := range rec.Outputs {
		add(len(o.TensorTypes) == 0, "the tensor types of %s", o.Name)
	}
	return list
}
