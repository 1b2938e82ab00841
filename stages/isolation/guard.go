package isolation

import (
	"encoding/json"
	"fmt"
)

// guardMarker is the value of [marker] that makes this program a guard: it
// reads its job from descriptor 3, closes the box from within and becomes the program.
const guardMarker = "guard"

const guardDescriptor = 3

// guardJob is what the guard is to do. Paths are the box's.
type guardJob struct {
	Program string   `json:"program"`
	Args    []string `json:"args"`
	Env     []string `json:"env"`
	// Executable are the only places below which anything may be executed; nil for everywhere.
	Executable []string `json:"executable"`
}

func (j guardJob) encode() []byte {
	body, err := json.Marshal(j)
	if err != nil {
		panic(fmt.Sprintf("a job of strings has no JSON: %v", err)) // it always has
	}
	return body
}
