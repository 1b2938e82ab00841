package schemas

// Policy is policy.yaml. Every number names its unit; a relative change is a
// fraction (0.10 is ten percent). Schema: policy.v1.json.
type Policy struct {
	Schema     string                  `json:"schema"`
	Name       string                  `json:"name"`
	Source     PolicySource            `json:"source"`
	Licences   []string                `json:"licences"` // identifiers as publishers declare them, lower case
	Scans      *ScanRule               `json:"scans,omitempty"`
	Notices    *NoticeRule             `json:"notices,omitempty"`
	Reviewers  *SignerRule             `json:"reviewers,omitempty"` // people, and how many of them must have reviewed the artifact
	Fresh      map[string]Age          `json:"fresh,omitempty"`     // oldest that evidence may be, by stage type, or acceptance, review, witnesses
	Standing   *StandingRule           `json:"standing,omitempty"`
	Witnesses  *WitnessRule            `json:"witnesses,omitempty"`
	Boxed      *BoxedRule              `json:"boxed,omitempty"`
	Built      *BuiltRule              `json:"built,omitempty"`
	Calibrated *CalibratedRule         `json:"calibrated,omitempty"`
	Parity     *ParityRule             `json:"parity,omitempty"`
	Placed     *PlacedRule             `json:"placed,omitempty"`
	Alone      *AloneRule              `json:"alone,omitempty"`
	Released   *ReleasedRule           `json:"released,omitempty"`
	Completed  *CompletedRule          `json:"completed,omitempty"`
	Signers    map[string]SignerRule   `json:"signers"` // by stage type
	Classes    map[string]Class        `json:"classes"`
	Decisions  map[string]DecisionRule `json:"decisions"` // accept, deliver, redistribute
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

// ScanRule says which scan states of the publisher's scanners are good enough
// for every file that was taken. A file without a state is in the state "absent".
type ScanRule struct {
	Allowed []string `json:"allowed"`
}

// NoticeRule says which licence and notice files must have come along, and what
// is known of the models that the publisher says his is made from.
type NoticeRule struct {
	// Files are paths of the publisher's revision that must have been taken. Any
	// other licence or notice file that the revision has must have been taken too.
	Files []string `json:"files"`
	// Upstreams gives the licence of each base model that the publisher may name
	// (owner/name), as its own publisher declares it.
	Upstreams map[string]string `json:"upstreams,omitempty"`
}

// Age is a whole number of hours, e.g. "720h".
type Age string

// StandingRule says how much of the log must have been looked at to tell that
// nothing was taken back.
type StandingRule struct {
	// WholeLog wants every entry of the log: then no withdrawal, no later refusal
	// and no worse report can have been left out.
	WholeLog bool `json:"wholeLog"`
}

// WitnessRule says whose cosignatures the log's checkpoint needs, and how many.
type WitnessRule struct {
	Names     []string `json:"names"` // in the trust file
	Threshold int      `json:"threshold"`
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

// DecisionRule says what a decision needs and, of an acceptance, who may sign it
// and how many must. Deliver and redistribute are answers that nobody signs:
// whoever asks takes them anew, and the functionaries named are only held
// against the trust file's deciders.
type DecisionRule struct {
	SignerRule
	Requires  []string `json:"requires"`            // names of rules; an unknown name is an error
	Isolation []string `json:"isolation,omitempty"` // facts of the reload that must be "denied", e.g. network
}
