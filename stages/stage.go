// Package stages is the producer's room: pipeline stages, each of which turns
// inputs into outputs and one unsigned provenance Statement, and the runner
// that orders, locks, resumes and records them. Signer, appender, claims,
// evidence store and clock are handed in; nothing here knows the ledger.
package stages

import (
	"context"
	"encoding/json"
	"io"
	"time"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/registry"
)

// Stage is one stage type.
type Stage interface {
	// Uses is the stage type's name as pipelines write it, e.g. "quantize".
	Uses() string
	// Run does the work. Outputs are written with [Run.Output]. A stage that
	// measured and found the work wrong returns an Outcome with verdict failed
	// and no error; an error means that it could not run to its end, and is
	// recorded as a failed run as well.
	Run(ctx context.Context, run *Run) (*Outcome, error)
}

// File is one file of an artifact. Name is slash-separated and relative to the artifact.
type File struct {
	Name string
	Path string
	Sums digest.Sums
}

// Artifact is what a stage made: one file, or several under one manifest digest.
type Artifact struct {
	Name   string          // the file's name, or the name of the folder
	Path   string          // absolute path of the file or folder
	Digest godigest.Digest // sha256 of the single file, or of the manifest (digest.Manifest)
	Files  []File          // sorted by name; exactly one whose Path is Path for a single file
	Multi  bool            // a folder under a manifest
	// Remote says that the bytes are on another machine: Path is empty, also of
	// Files, and sizes are 0 where evidence does not tell them.
	Remote bool
}

// Dependency is a further thing that went into a run besides its input
// artifacts: a tool binary, a library, a corpus file. Name carries the role: tool/…, library/…, corpus/…, source/….
type Dependency struct {
	Name   string
	Digest godigest.Digest // sha256
	GitOID string          // 40 hex, optional: a git commit
	URI    string          // optional
}

// Evidence is one stored evidence object.
type Evidence struct {
	Name      string // e.g. report/derive, log/stdout, array/logits
	Digest    godigest.Digest
	MediaType string
	Size      int64
	Notes     map[string]any // what the Statement says of it besides; optional
}

// Objects is the content-addressed evidence store.
type Objects interface {
	Put(ctx context.Context, mediaType string, public bool, r io.Reader) (digest godigest.Digest, size int64, err error)
	Get(ctx context.Context, digest godigest.Digest) ([]byte, error)
}

// Progress is told what a stage does. Done and Total are in bytes, or both zero for a mere message.
type Progress func(message string, done, total int64)

// Run is one run of a stage: everything the stage may use.
type Run struct {
	Stage    string              // the stage's name in the pipeline
	With     json.RawMessage     // parameters, already valid against the stage type's schema
	Inputs   map[string]Artifact // by role; bytes were hashed again before the run
	Dir      string              // absolute; outputs go directly below it, nothing else is there
	Project  string              // absolute; relative paths in With are below it
	Objects  Objects
	Claims   []attest.Claim    // every verified claim of the ledger so far, in log order
	Publish  schemas.Publisher // the pipeline's publisher pin
	Progress Progress
	Now      func() time.Time
	Extra    *Extra // what only some stages use; see there
}

// Extra is handed to the stages that decide or finish: accept, deliver, complete.
type Extra struct {
	Policy         schemas.Policy
	PolicyDigest   godigest.Digest     // of policy.yaml's bytes
	PipelineDigest godigest.Digest     // of pipeline.yaml's bytes
	Stages         []schemas.StageDecl // of pipeline.yaml, as declared
	Checkpoint     func(ctx context.Context) (string, error)
	Delivered      string // absolute path of the folder of accepted bytes
	// Evidence gathers all that a policy looks at: besides the claims and their
	// objects, what the log vouches for. Nil: the claims and their objects alone.
	Evidence func(ctx context.Context, claims []attest.Claim) (policy.Evidence, error)
	// Attachment gathers the public evidence that travels with a file into a
	// registry. Nil: nothing is delivered into one.
	Attachment func(ctx context.Context, file Artifact) (registry.Evidence, error)
}

// Outcome is what a run gave.
type Outcome struct {
	Output       *Artifact // nil when the stage only examined something
	Dependencies []Dependency
	Reports      []kernels.Report
	Evidence     []Evidence        // logs and arrays already put into Objects; reports are put by the runner
	Internal     map[string]any    // internalParameters: what was resolved (limits, threads, enforcement)
	Facts        map[string]string // see schemas.Result
	Verdict      schemas.Verdict
	Failure      string // why, when the verdict is not passed
	ExitStatus   int
	// Statements are further Statements of the run besides its provenance (test-result, VSA, SCAI, completion).
	Statements []*attest.Statement
}
