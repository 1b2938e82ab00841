package schemas

import godigest "github.com/opencontainers/go-digest"

// Report is a kernel's report as evidence: what the kernels room writes, read
// back by those who decide. Schema: report.v1.json.
type Report struct {
	Schema          string    `json:"schema"`
	Kernel          string    `json:"kernel"`
	Version         string    `json:"version"`
	Spec            string    `json:"spec"`
	Inputs          []Input   `json:"inputs"`
	Metrics         []Metric  `json:"metrics"`
	Findings        []Finding `json:"findings"`
	FindingsOmitted int       `json:"findingsOmitted"`
	Controls        Controls  `json:"controls"`
	Verdict         Verdict   `json:"verdict"`
}

// Input is one input of a kernel run. Size is in bytes.
type Input struct {
	Name   string          `json:"name"`
	Digest godigest.Digest `json:"digest"`
	Size   int64           `json:"size"`
}

// Metric is one measured number with its unit and identity.
type Metric struct {
	Name     string            `json:"name"`
	Unit     string            `json:"unit"`
	Value    float64           `json:"value"`
	Identity map[string]string `json:"identity,omitempty"`
}

// Finding is one difference: check, place, got and want.
type Finding struct {
	Check string `json:"check"`
	Where string `json:"where"`
	Got   string `json:"got"`
	Want  string `json:"want"`
	Hint  string `json:"hint,omitempty"`
}

// Controls counts the planted faults of a run.
type Controls struct {
	Planted int             `json:"planted"`
	Red     int             `json:"red"`
	Missed  int             `json:"missed"`
	Results []ControlResult `json:"results"`
}

// ControlResult is the outcome of one planted fault.
type ControlResult struct {
	Name   string `json:"name"`
	Fault  string `json:"fault"`
	Red    bool   `json:"red"`
	Detail string `json:"detail"`
}

// Result is how a stage run ended; every provenance Statement carries one as a
// byproduct. Schema: result.v1.json.
type Result struct {
	Schema     string  `json:"schema"`
	Stage      string  `json:"stage"`
	Uses       string  `json:"uses"`
	Verdict    Verdict `json:"verdict"`
	ExitStatus int     `json:"exitStatus"` // of the wrapped command; 0 for a built-in stage that ran to its end
	Failure    string  `json:"failure"`    // why it did not pass; empty when it did
	// Facts are short named observations that a policy may read (e.g. "licence", "network").
	Facts map[string]string `json:"facts"`
}
