package stages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/schemas"
)

// Names below work/ that are not a stage's folder.
const (
	lockName     = "lock"
	progressName = "progress"
)

// Runner runs a pipeline's stages in order, one at a time, and records each.
// Every field is required unless it says otherwise.
type Runner struct {
	Project  string // absolute path of the project folder
	Pipeline schemas.Pipeline
	Stages   map[string]Stage // by stage type
	Signers  map[string]attest.Signer
	// Append makes a bundle part of the ledger, durably, or fails.
	Append func(ctx context.Context, bundle []byte) error
	// Claims gives every verified claim of the ledger, in log order.
	Claims  func(ctx context.Context) ([]attest.Claim, error)
	Objects Objects
	Builder Builder
	Extra   Extra
	Now     func() time.Time // asked by several at once
	// Only, where not empty, names the stages to run. What they need must be
	// complete already; nothing else runs.
	Only []string
	// Machine is this machine's name in the pipeline. Stages of another one are
	// never run here, see [ElsewhereError].
	Machine string
	// MachineRoot is a folder on a local disk that all projects of this machine
	// share: while one of them runs a heavy stage, the others wait. None do when empty.
	MachineRoot string
	NoWait      bool // be refused instead of waiting; optional
	// KeepGoing runs what does not rest on a stage that failed; optional.
	KeepGoing bool
	// Interval is the time between two samples of the machine and two words of
	// progress in work/progress. Neither is kept when zero.
	Interval time.Duration
	Observe  func(Event) // told of each stage's start, progress and end, never twice at a time; optional

	observing *sync.Mutex // made by Run
}

// Event is one thing that happened during a run.
type Event struct {
	Stage, Uses string
	// Kind is started, progress, sample, finished, resumed, skipped (it rests on
	// what failed), interrupted (an earlier run ended without a record), waiting
	// (for the machine) or notice.
	Kind        string
	Message     string
	Done, Total int64 // bytes
	Elapsed     time.Duration
	Verdict     schemas.Verdict
	Failure     string
	Controls    kernels.Controls // summed over the stage's reports
	Output      *Artifact
	Sample      *schemas.Sample
}

// StageError says that a stage did not pass; the run stops there, or goes on
// without what rests on it. What it made stays as a candidate and its failure
// is in the ledger.
type StageError struct {
	Stage, Uses string
	Verdict     schemas.Verdict
	Failure     string
	Stopped     bool // the run was told to stop: the failure says nothing of the work
}

func (e *StageError) Error() string {
	return fmt.Sprintf("stage %s (%s): %s: %s; the failure is recorded in the ledger and what it made stays a candidate below work/%s", e.Stage, e.Uses, e.Verdict, e.Failure, e.Stage)
}

// Run runs every stage that the ledger does not already prove complete.
// It returns the artifacts by stage name.
func (r *Runner) Run(ctx context.Context) (map[string]Artifact, error) {
	r.observing = &sync.Mutex{}
	order, err := Order(r.Pipeline)
	if err != nil {
		return nil, err
	}
	needed, err := neededFor(order, r.Only)
	if err != nil {
		return nil, err
	}
	lock, left, err := acquireLock(filepath.Join(r.Project, "work", lockName), r.holder(""))
	if err != nil {
		return nil, err
	}
	defer lock.release()
	if left != "" {
		r.observe(Event{Kind: "notice", Message: "the last run of this project did not end by itself: " + left})
	}
	if err := r.lookForInterrupted(); err != nil {
		return nil, err
	}
	made := map[string]Artifact{}
	var failed failures
	for _, decl := range order {
		if !needed[decl.Name] {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return made, errors.Join(append(failed.errs, fmt.Errorf("stopped before stage %s: %w; run again to go on", decl.Name, err))...)
		}
		if why := failed.restsOn(decl); why != "" {
			failed.add(decl, nil)
			r.observe(Event{Stage: decl.Name, Uses: decl.Uses, Kind: "skipped", Message: why})
			continue
		}
		mayRun := len(r.Only) == 0 || slices.Contains(r.Only, decl.Name)
		err := r.runStage(ctx, decl, made, mayRun)
		if err != nil && (!ofItsBranch(err) || !r.KeepGoing && !waitsElsewhere(err)) {
			return made, errors.Join(append(failed.errs, err)...)
		}
		if err != nil {
			failed.add(decl, err)
		}
	}
	return made, errors.Join(failed.errs...)
}

// inputs finds the artifact of each role and hashes its bytes again: names prove nothing.
func (r *Runner) inputs(ctx context.Context, decl schemas.StageDecl, made map[string]Artifact) (map[string]Artifact, error) {
	inputs := map[string]Artifact{}
	for _, role := range sortedKeys(decl.Inputs) {
		a, ok := made[decl.Inputs[role]]
		if !ok {
			return nil, fmt.Errorf("stage %s: input %s: stage %s made no artifact", decl.Name, role, decl.Inputs[role])
		}
		if a.Remote { // its evidence was looked at; its bytes are on another machine
			inputs[role] = a
			continue
		}
		if err := a.Check(ctx); err != nil {
			return nil, fmt.Errorf("stage %s: input %s from stage %s: %w", decl.Name, role, decl.Inputs[role], err)
		}
		inputs[role] = a
	}
	return inputs, nil
}

func (r *Runner) external(decl schemas.StageDecl) schemas.ExternalParameters {
	e := schemas.ExternalParameters{Stage: decl.Name, Uses: decl.Uses, Inputs: decl.Inputs, With: with(decl), Machine: decl.Machine}
	if e.Inputs == nil {
		e.Inputs = map[string]string{}
	}
	if decl.Uses == "acquire" {
		pin := r.Pipeline.Publisher
		e.Publisher = &pin
	}
	return e
}

func (r *Runner) observe(e Event) {
	if r.Observe != nil {
		r.observing.Lock() // samples come from beside the stage
		defer r.observing.Unlock()
		r.Observe(e)
	}
}

func with(decl schemas.StageDecl) json.RawMessage {
	if len(decl.With) == 0 {
		return json.RawMessage("{}")
	}
	return decl.With
}

func signerName(decl schemas.StageDecl) string {
	if decl.Signer == "" {
		return "producer"
	}
	return decl.Signer
}

// BinaryDigest hashes the running binary, for [Builder].
func BinaryDigest() (godigest.Digest, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the running binary: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("open the running binary: %w", err)
	}
	defer f.Close()
	return godigest.FromReader(f)
}
