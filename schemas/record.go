package schemas

import (
	"encoding/json"

	godigest "github.com/opencontainers/go-digest"
)

// CompletionRecord is what a finished run was made of and what was shown of it.
// Each entry names the claim (PAE digest) from which it was read; nothing here
// is anybody's word besides. What was not measured is listed, not guessed. Part
// of [Completion], schema completion.v1.json.
type CompletionRecord struct {
	Source     RecordSource       `json:"source"`
	Tools      []RecordTool       `json:"tools"`   // sources and builds of the tools that were used
	Boxes      []RecordBox        `json:"boxes"`   // what was shown of the boxes that they ran in
	Locks      []RecordLock       `json:"locks"`   // resolved package locks
	Corpora    []RecordCorpus     `json:"corpora"` // calibration texts
	Outputs    []RecordOutput     `json:"outputs"`
	Validation []RecordValidation `json:"validation"`
	NotTested  []string           `json:"notTested"`
}

// RecordFile is a name with its sha256.
type RecordFile struct {
	Name   string          `json:"name"`
	Digest godigest.Digest `json:"digest"`
}

// RecordSource is the publisher's revision as it was acquired.
type RecordSource struct {
	Claim      godigest.Digest `json:"claim"`
	Repository string          `json:"repository"`
	Revision   string          `json:"revision"`
	Licence    string          `json:"licence"` // as declared; "absent" when none is
	Files      []RecordFile    `json:"files"`
}

// RecordTool is one patched source or one build.
type RecordTool struct {
	Claim    godigest.Digest `json:"claim"`
	Stage    string          `json:"stage"`
	Uses     string          `json:"uses"`   // patch or build
	Commit   string          `json:"commit"` // of the source; empty for a build, whose source is an entry of its own
	Patches  []RecordFile    `json:"patches"`
	Inputs   []RecordFile    `json:"inputs"`
	Products []RecordFile    `json:"products"` // of a patched source the tree's manifest alone
}

// RecordBox is one probe of a box.
type RecordBox struct {
	Claim      godigest.Digest `json:"claim"`
	Method     string          `json:"method"`
	Attributes []string        `json:"attributes"` // as SCAI Statements assert them
}

// RecordLock is the lock of a tool's packages in one run.
type RecordLock struct {
	Claim  godigest.Digest `json:"claim"`
	Stage  string          `json:"stage"`
	Name   string          `json:"name"`
	Digest godigest.Digest `json:"digest"`
}

// RecordCorpus is a calibration text.
type RecordCorpus struct {
	Claim   godigest.Digest `json:"claim"`
	Name    string          `json:"name"`
	Digest  godigest.Digest `json:"digest"`
	Licence string          `json:"licence"` // as the policy or the run states it; "absent" when neither does
}

// RecordOutput is one delivered artifact: the steps that made it, and what lies in it.
type RecordOutput struct {
	Name        string           `json:"name"`
	Digest      godigest.Digest  `json:"digest"`
	Size        int64            `json:"size"` // bytes
	Class       string           `json:"class"`
	Steps       []RecordStep     `json:"steps"`
	TensorTypes map[string]int64 `json:"tensorTypes"` // tensors of each type, as the derivation counted them
	// Metadata gives the sha256 of what the delivered file's header holds under
	// each key about tokens and templates (tokenizer.…): of a string its bytes, else
	// of a little-endian GGUF v3 header without tensors that holds this key alone.
	// Empty where the file was not at hand, or is no GGUF.
	Metadata map[string]godigest.Digest `json:"metadata"`
}

// RecordStep is one run on the way to an output, in the order in which they ended.
type RecordStep struct {
	Claim      godigest.Digest `json:"claim"`
	Stage      string          `json:"stage"`
	Uses       string          `json:"uses"`
	Parameters json.RawMessage `json:"parameters"` // the recipe, as declared
	Inputs     []RecordFile    `json:"inputs"`     // by role
	Tools      []RecordFile    `json:"tools"`      // programs and libraries; none: this program did the work
}

// RecordValidation is one examination of an output, or of what it was made from.
type RecordValidation struct {
	Claim      godigest.Digest   `json:"claim"`
	Stage      string            `json:"stage"`
	Uses       string            `json:"uses"`
	Of         []RecordFile      `json:"of"`         // by role
	Backend    string            `json:"backend"`    // what computed
	Hardware   map[string]string `json:"hardware"`   // of the run's receipt: os, arch, cpus, memory in bytes; empty when it has none
	Parameters json.RawMessage   `json:"parameters"` // as declared
	Reports    []RecordReport    `json:"reports"`
	Fixtures   []RecordFixtures  `json:"fixtures"`
	Contexts   []int             `json:"contexts"` // real prompt tokens of retrieval, ascending
	Memory     []RecordMemory    `json:"memory"`
}

// RecordReport is what one kernel found: its metrics with unit and identity (domain), and how many findings.
type RecordReport struct {
	Kernel   string    `json:"kernel"`
	Version  string    `json:"version"`
	Verdict  Verdict   `json:"verdict"`
	Metrics  []Metric  `json:"metrics"`
	Failures []Finding `json:"failures"`
}

// RecordFixtures counts the fixtures of one kind.
type RecordFixtures struct {
	Kind     string `json:"kind"`
	Language string `json:"language,omitempty"`
	Tokens   string `json:"tokens,omitempty"`
	Total    int    `json:"total"`
	Passed   int    `json:"passed"`
}

// RecordMemory is a size in bytes and what kind of number it is: samples can miss a peak, a high-water mark cannot.
type RecordMemory struct {
	Scope string `json:"scope"` // "largest sample", "high-water mark of one process"
	Bytes int64  `json:"bytes"`
}
