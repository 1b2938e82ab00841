package schemas

import "encoding/json"

// Pipeline is pipeline.yaml. Schema: pipeline.v1.json.
type Pipeline struct {
	Schema    string      `json:"schema"`
	Publisher Publisher   `json:"publisher"`
	Stages    []StageDecl `json:"stages"`
}

// Publisher pins what is acquired.
type Publisher struct {
	Repository string   `json:"repository"` // owner/name
	Revision   string   `json:"revision"`   // 40 lower-case hex digits
	Allow      []string `json:"allow"`      // path.Match patterns of the files to take; others are refused
}

// StageDecl declares one stage: its name, the stage type it uses, its inputs
// by role (the name of an earlier stage), its parameters and who signs it.
type StageDecl struct {
	Name   string            `json:"name"`
	Uses   string            `json:"uses"`
	Inputs map[string]string `json:"inputs,omitempty"`
	With   json.RawMessage   `json:"with,omitempty"`
	Signer string            `json:"signer,omitempty"` // name of the key in keys/; "producer" when empty
	// Machine is the one machine that may run the stage; elsewhere it is proven
	// by evidence that was imported. Any machine when empty.
	Machine string `json:"machine,omitempty"`
}

// ExternalParameters is externalParameters of a stage's SLSA provenance: the
// stage as declared, after defaults were filled in.
type ExternalParameters struct {
	Stage     string            `json:"stage"`
	Uses      string            `json:"uses"`
	Inputs    map[string]string `json:"inputs"`
	With      json.RawMessage   `json:"with"`
	Publisher *Publisher        `json:"publisher,omitempty"` // acquire only
	Machine   string            `json:"machine,omitempty"`   // the machine that alone runs it
}
