package schemas

import godigest "github.com/opencontainers/go-digest"

// BoxedRule says in which box every tool must have run, and what an isolate run
// must have shown of that box by SCAI attributes. Network is never admitted.
type BoxedRule struct {
	Methods    []string `json:"methods"`            // bubblewrap, landlock, sandbox-exec
	Admitted   []string `json:"admitted,omitempty"` // what may have been let in by name, e.g. gpu
	Attributes []string `json:"attributes"`         // e.g. NETWORK_DENIED
}

// BuiltRule says from which sources the tools must have been built.
type BuiltRule struct {
	Sources []ToolSource `json:"sources"`
	// Environment are the tools and libraries by digest that no build made and that
	// may have run beside them (an interpreter, a lock of its packages); the one word
	// "unpinned" lets in any, recorded but not held against anything.
	Environment []string `json:"environment,omitempty"`
}

// ToolSource is a tool's source: a full commit, and the patches applied to it, all of them.
type ToolSource struct {
	Commit  string            `json:"commit"`
	Patches []godigest.Digest `json:"patches"` // empty: the commit as it is
}

// CalibratedRule says which corpora an importance matrix may come from.
type CalibratedRule struct {
	Corpora []Corpus `json:"corpora"`
}

// Corpus is a calibration text by digest, and the licence that it is under.
type Corpus struct {
	Digest  godigest.Digest `json:"digest"`
	Licence string          `json:"licence"`
}

// ParityRule says how many cases the tokenizers must have agreed on, all of them.
type ParityRule struct {
	Cases int `json:"cases"`
}

// PlacedRule says on which devices every weight must have lain, by stage type.
type PlacedRule struct {
	Devices []string `json:"devices"` // e.g. CPU, CUDA0
	Uses    []string `json:"uses"`    // calibrate, evaluate …
}

// AloneRule says whose measurements must have had the machine to themselves.
type AloneRule struct {
	Uses []string `json:"uses"`
}

// ReleasedRule says in which state rented compute must have been left.
type ReleasedRule struct {
	Compute string `json:"compute"` // azure
	State   string `json:"state"`   // PowerState/deallocated
	// StandIn lets the word of a stand-in for the provider count, on the very
	// machine that asked: for trying things out, never for what was really rented.
	StandIn bool `json:"standIn,omitempty"`
}

// CompletedRule says what a completion must hold.
type CompletedRule struct {
	Record bool `json:"record"` // what the run was made of, read from its claims; see [CompletionRecord]
}
