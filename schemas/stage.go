package schemas

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
)

// UnknownStageError says that no stage type has this name.
type UnknownStageError struct {
	Uses  string
	Known []string // sorted
}

func (e *UnknownStageError) Error() string {
	return fmt.Sprintf("stage type: got %q, want one of %s", e.Uses, strings.Join(e.Known, ", "))
}

// StageParameters validates the parameters of a stage type against
// stage-<uses>.v1.json. No parameters are an empty object. A stage type without
// a schema gives *UnknownStageError.
func StageParameters(uses string, with json.RawMessage) error {
	name, ok := fileName(BuildType(uses))
	if _, err := fs.Stat(files, name); !ok || err != nil {
		return &UnknownStageError{Uses: uses, Known: StageTypes()}
	}
	if len(with) == 0 {
		with = json.RawMessage("{}")
	}
	return Validate(BuildType(uses), with)
}

// StageTypes lists the stage types that have a schema, sorted.
func StageTypes() []string {
	names, err := fs.Glob(files, "stage-*.v1.json")
	if err != nil {
		return nil // only a malformed pattern fails
	}
	for i, n := range names {
		names[i] = strings.TrimSuffix(strings.TrimPrefix(n, "stage-"), ".v1.json")
	}
	return names
}
