package schemas

// Policy is policy.yaml. Every number names its unit; a relative change is a
// fraction (0.10 is ten percent). Schema: policy.v1.json.
type Policy struct {
	Schema    string                  `json:"schema"`
	Name      string                  `json:"name"`
	Source    PolicySource            `json:"source"`
	Licences  []string                `json:"licences"` // identifiers as publishers declare them, lower case
	Signers   map[string]SignerRule   `json:"signers"`  // by stage type
	Classes   map[string]Class        `json:"classes"`
	Decisions map[string]DecisionRule `json:"decisions"` // accept, deliver, redistribute
}

// PolicySource is the publisher revision that every chain must start from.
type PolicySource struct {
	Repository string `json:"repository"`
	Revision   string `json:"revision"`
}

// SignerRule says who may sign, and how many distinct functionaries with distinct keys must.
type SignerRule struct {
	Functionaries []string `json:"functionaries"`
	Threshold     int      `json:"threshold"`
}

// Class is a kind of artifact: how it must have been made and checked.
type Class struct {
	Description string `json:"description"`
	// TensorTypes are the only tensor types the artifact may hold, as the derive kernel counted them.
	TensorTypes []string `json:"tensorTypes"`
	// Made is the exact path of stage types from the publisher to the artifact.
	Made []string `json:"made"`
	// Side are stage types whose outputs may be further inputs on that path (an importance matrix, a built tool).
	Side []string `json:"side,omitempty"`
	// Checked are the stage types that must have examined the artifact (of: artifact) or its source (of: source).
	Checked  []CheckRule `json:"checked"`
	Gates    []Gate      `json:"gates"`
	Coverage []Coverage  `json:"coverage"`
}

// CheckRule requires one examination and names the kernels whose passed reports
// it must have brought. Against, where given, is a further input that it must
// have had: "source", or a stage type whose run itself examined the source.
type CheckRule struct {
	Uses    string   `json:"uses"`
	Of      string   `json:"of"` // artifact or source
	Against string   `json:"against,omitempty"`
	Kernels []string `json:"kernels"`
}

// Gate compares one metric with one bound. All reports of the kernel count.
type Gate struct {
	Name     string            `json:"name"`
	Kernel   string            `json:"kernel"`
	Metric   string            `json:"metric"`
	Unit     string            `json:"unit"`
	Compare  string            `json:"compare"` // "<=", ">=", "=="
	Value    float64           `json:"value"`
	Identity map[string]string `json:"identity,omitempty"` // each must equal the metric's
	Origin   string            `json:"origin"`             // where the number comes from
}

// Coverage requires that fixtures of a kind were run and that all of them passed.
type Coverage struct {
	Kind     string `json:"kind"`
	Language string `json:"language,omitempty"`
	Tokens   int    `json:"tokens,omitempty"` // real prompt tokens, for retrieval
	AtLeast  int    `json:"atLeast"`          // fixtures
}

// DecisionRule says who may take a decision and what it needs.
type DecisionRule struct {
	SignerRule
	Requires  []string `json:"requires"`            // names of rules; an unknown name is an error
	Isolation []string `json:"isolation,omitempty"` // facts of the reload that must be "denied", e.g. network
}
