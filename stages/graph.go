package stages

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weighmaster/weighmaster/schemas"
)

// gates are stage types that decide for everything after them: what they find
// wrong (the box, the tokenizer, the source) is wrong for every branch.
var gates = []string{"inspect", "isolate", "parity"}

// failures are the stages that did not pass in a run that keeps going.
type failures struct {
	names map[string]bool
	gate  string
	errs  []error
}

func (f *failures) add(decl schemas.StageDecl, err error) {
	if f.names == nil {
		f.names = map[string]bool{}
	}
	f.names[decl.Name] = true
	if err == nil {
		return // it was not run
	}
	f.errs = append(f.errs, err)
	if slices.Contains(gates, decl.Uses) {
		f.gate = decl.Name
	}
}

// restsOn says why a stage is not run: it takes what a failed stage was to make,
// or comes after a gate that failed, or finishes the whole.
func (f *failures) restsOn(decl schemas.StageDecl) string {
	if len(f.names) == 0 {
		return ""
	}
	if f.gate != "" {
		return fmt.Sprintf("it comes after stage %s, which failed and decides for all", f.gate)
	}
	if decl.Uses == "complete" {
		return "stages before it failed, and it is about all of them"
	}
	for _, role := range sortedKeys(decl.Inputs) {
		if f.names[decl.Inputs[role]] {
			return fmt.Sprintf("its input %s comes from stage %s, which did not pass", role, decl.Inputs[role])
		}
	}
	return ""
}

// ofItsBranch tells an error of one stage from one that concerns the whole run.
func ofItsBranch(err error) bool {
	var stage *StageError
	var elsewhere *ElsewhereError
	return errors.As(err, &stage) && !stage.Stopped || errors.As(err, &elsewhere)
}
