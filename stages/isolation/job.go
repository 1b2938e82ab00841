package isolation

import (
	"encoding/json"
	"fmt"
)

const guardDescriptor = 3

// guardJob is what the guard is to do, in this order. Paths are the box's.
type guardJob struct {
	Dir    string   `json:"dir"`    // working directory; as it is when empty
	NoExec []string `json:"noExec"` // mount points below which nothing may be executed or loaded
	// Executable are the only places below which anything may be executed; nil for everywhere.
	Executable []string   `json:"executable"`
	Files      *fileRules `json:"files"`    // the only files that can be opened; nil for all that are there
	Network    bool       `json:"network"`  // whether connections are let through
	UID        int        `json:"uid"`      // user and group to become; 0 for the one it is
	Refuse     []string   `json:"refuse"`   // system calls
	Families   []int      `json:"families"` // of sockets that can be made; none: see Refuse
	Program    string     `json:"program"`
	Args       []string   `json:"args"`
	Env        []string   `json:"env"`
}

// fileRules are places of the file system and what may be done below them.
type fileRules struct {
	Read    []string `json:"read"`
	Write   []string `json:"write"` // and read
	Devices []string `json:"devices"`
}

func (j guardJob) encode() []byte {
	body, err := json.Marshal(j)
	if err != nil {
		panic(fmt.Sprintf("a job of strings has no JSON: %v", err)) // it always has
	}
	return body
}
