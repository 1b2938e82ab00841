package stages

import (
	"fmt"
	"strings"

	"github.com/weighmaster/weighmaster/schemas"
)

// Order checks a pipeline's graph and returns its stages as declared, which
// must already be an order that runs: a stage takes only what an earlier one made.
func Order(p schemas.Pipeline) ([]schemas.StageDecl, error) {
	if len(p.Stages) == 0 {
		return nil, fmt.Errorf("pipeline: it has no stages; there is nothing to run")
	}
	seen := map[string]bool{}
	for i, s := range p.Stages {
		if s.Name == "" || s.Name == "." || s.Name == ".." || strings.ContainsAny(s.Name, "/\\\x00") {
			return nil, fmt.Errorf("pipeline: stages[%d].name: got %q, want a plain name: it becomes a folder", i, s.Name)
		}
		if s.Name == lockName || s.Name == progressName || strings.Contains(s.Name, candidateMark) {
			return nil, fmt.Errorf("pipeline: stages[%d].name: got %q, want another: work/%s is this program's own", i, s.Name, s.Name)
		}
		if seen[s.Name] {
			return nil, fmt.Errorf("pipeline: two stages are called %q", s.Name)
		}
		for _, role := range sortedKeys(s.Inputs) {
			if !seen[s.Inputs[role]] {
				return nil, fmt.Errorf("pipeline: stage %s: input %s names stage %q, which is not an earlier stage", s.Name, role, s.Inputs[role])
			}
		}
		seen[s.Name] = true
	}
	return p.Stages, nil
}

// neededFor gives the stages to go through for some of them: those and
// everything that their inputs come from. No names means all.
func neededFor(order []schemas.StageDecl, only []string) (map[string]bool, error) {
	needed := map[string]bool{}
	for _, name := range only {
		needed[name] = true
	}
	for i := len(order) - 1; i >= 0; i-- {
		if len(only) == 0 {
			needed[order[i].Name] = true
		}
		if needed[order[i].Name] {
			for _, input := range order[i].Inputs {
				needed[input] = true
			}
		}
	}
	for _, name := range only {
		if !hasStage(order, name) {
			return nil, fmt.Errorf("pipeline: it has no stage %q", name)
		}
	}
	return needed, nil
}

func hasStage(order []schemas.StageDecl, name string) bool {
	for _, s := range order {
		if s.Name == name {
			return true
		}
	}
	return false
}
