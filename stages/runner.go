package stages

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/schemas"
)

// Names below work/ that are not a stage's folder.
const (
	lockName      = "lock"
	candidateMark = ".candidate-" // and a number: what a failed run of the stage left
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
	Now     func() time.Time
	// Only, where not empty, names the stages to run. What they need must be
	// complete already; nothing else runs.
	Only []string
	// Machine is this machine's name in the pipeline. Stages of another one are
	// never run here, see [ElsewhereError].
	Machine string
	Observe func(Event) // told of each stage's start, progress and end; optional
}

// Event is one thing that happened during a run.
type Event struct {
	Stage, Uses string
	Kind        string // started, progress, finished, resumed
	Message     string
	Done, Total int64 // bytes
	Elapsed     time.Duration
	Verdict     schemas.Verdict
	Failure     string
	Controls    kernels.Controls // summed over the stage's reports
	Output      *Artifact
}

// StageError says that a stage did not pass; the run stops there. What it made
// stays as a candidate and its failure is in the ledger.
type StageError struct {
	Stage, Uses string
	Verdict     schemas.Verdict
	Failure     string
}

func (e *StageError) Error() string {
	return fmt.Sprintf("stage %s (%s): %s: %s; the failure is recorded in the ledger and what it made stays a candidate below work/%s", e.Stage, e.Uses, e.Verdict, e.Failure, e.Stage)
}

// Run runs every stage that the ledger does not already prove complete.
// It returns the artifacts by stage name.
func (r *Runner) Run(ctx context.Context) (map[string]Artifact, error) {
	lock, err := acquireLock(filepath.Join(r.Project, "work", lockName), r.Now())
	if err != nil {
		return nil, err
	}
	defer lock.release()
	order, err := Order(r.Pipeline)
	if err != nil {
		return nil, err
	}
	needed, err := neededFor(order, r.Only)
	if err != nil {
		return nil, err
	}
	made := map[string]Artifact{}
	for _, decl := range order {
		if !needed[decl.Name] {
			continue
		}
		mayRun := len(r.Only) == 0 || slices.Contains(r.Only, decl.Name)
		if err := r.runStage(ctx, decl, made, mayRun); err != nil {
			return made, err
		}
	}
	return made, nil
}

func (r *Runner) runStage(ctx context.Context, decl schemas.StageDecl, made map[string]Artifact, mayRun bool) error {
	stage, ok := r.Stages[decl.Uses]
	if !ok {
		return fmt.Errorf("stage %s: uses %q, which is no stage type; known are %s", decl.Name, decl.Uses, strings.Join(sortedKeys(r.Stages), ", "))
	}
	if err := schemas.StageParameters(decl.Uses, with(decl)); err != nil {
		return fmt.Errorf("stage %s: parameters: %w", decl.Name, err)
	}
	inputs, err := r.inputs(ctx, decl, made)
	if err != nil {
		return err
	}
	claims, err := r.Claims(ctx)
	if err != nil {
		return err
	}
	run := &Run{
		Stage: decl.Name, With: with(decl), Inputs: inputs, Dir: filepath.Join(r.Project, "work", decl.Name), Project: r.Project,
		Objects: r.Objects, Claims: claims, Publish: r.Pipeline.Publisher, Now: r.Now, Extra: &r.Extra,
		Progress: func(message string, done, total int64) {
			r.observe(Event{Stage: decl.Name, Uses: decl.Uses, Kind: "progress", Message: message, Done: done, Total: total})
		},
	}
	external := r.external(decl)
	if r.isElsewhere(decl) {
		out, err := r.proven(ctx, run, external, decl)
		if err != nil {
			return err
		}
		if out != nil {
			made[decl.Name] = *out
		}
		r.observe(Event{Stage: decl.Name, Uses: decl.Uses, Kind: "resumed", Verdict: schemas.Passed, Output: out})
		return nil
	}
	if err := takesRemote(stage, decl, inputs); err != nil {
		return err
	}
	if out, ok := r.resume(ctx, stage, run, external, signerName(decl)); ok {
		if out != nil {
			made[decl.Name] = *out
		}
		r.observe(Event{Stage: decl.Name, Uses: decl.Uses, Kind: "resumed", Verdict: schemas.Passed, Output: out})
		return nil
	}
	if !mayRun {
		return fmt.Errorf("stage %s (%s) is not complete: the ledger has no passed run of it on these inputs whose output still hashes so; run it first: weighmaster run", decl.Name, decl.Uses)
	}
	// What another machine ran and signed needs no key here.
	signer, ok := r.Signers[signerName(decl)]
	if !ok {
		return fmt.Errorf("stage %s: its signer %q has no key in keys/; known are %s", decl.Name, signerName(decl), strings.Join(sortedKeys(r.Signers), ", "))
	}
	if err := prepareDir(stage, run.Dir); err != nil {
		return fmt.Errorf("stage %s: %w", decl.Name, err)
	}
	rec := record{decl: decl, external: external, inputs: inputs, invocation: invocationID(), start: r.Now()}
	r.observe(Event{Stage: decl.Name, Uses: decl.Uses, Kind: "started"})
	rec.outcome, err = stage.Run(ctx, run)
	if err == nil && rec.outcome == nil {
		err = errors.New("the stage gave no outcome")
	}
	if err != nil {
		rec.outcome = failedOutcome(rec.outcome, err)
	}
	rec.end = r.Now()
	if err := r.record(ctx, signer, rec); err != nil {
		return errors.Join(fmt.Errorf("stage %s ran (%s) but could not be recorded", decl.Name, rec.outcome.Verdict), err)
	}
	o := rec.outcome
	event := Event{Stage: decl.Name, Uses: decl.Uses, Kind: "finished", Elapsed: rec.end.Sub(rec.start), Verdict: o.Verdict, Failure: o.Failure, Output: o.Output}
	for _, rep := range o.Reports {
		event.Controls.Planted += rep.Controls.Planted
		event.Controls.Red += rep.Controls.Red
		event.Controls.Missed += rep.Controls.Missed
	}
	r.observe(event)
	if o.Verdict != schemas.Passed || o.ExitStatus != 0 {
		return &StageError{Stage: decl.Name, Uses: decl.Uses, Verdict: o.Verdict, Failure: o.Failure}
	}
	if o.Output != nil {
		made[decl.Name] = *o.Output
	}
	return nil
}

// failedOutcome keeps what a stage gave before it failed.
func failedOutcome(o *Outcome, err error) *Outcome {
	if o == nil {
		o = &Outcome{}
	}
	o.Verdict, o.Failure = schemas.Failed, err.Error()
	if o.ExitStatus == 0 {
		o.ExitStatus = 1
	}
	return o
}

// record states, signs and appends a run and its further Statements. A
// cancelled context does not stop it: what happened is recorded.
func (r *Runner) record(ctx context.Context, signer attest.Signer, rec record) error {
	ctx = context.WithoutCancel(ctx)
	if err := consistent(rec.outcome); err != nil {
		failedOutcome(rec.outcome, err)
		rec.outcome.Statements = nil // what it says besides is no more to be believed
	}
	statement, err := r.Builder.provenance(ctx, rec, r.Objects)
	if err != nil {
		// The run is recorded all the same, without what cannot be stated.
		o := failedOutcome(rec.outcome, fmt.Errorf("what it found cannot be stated: %w", err))
		o.Reports, o.Evidence, o.Internal, o.Statements, o.Dependencies = nil, nil, nil, nil, nil
		if statement, err = r.Builder.provenance(ctx, rec, r.Objects); err != nil {
			return err
		}
	}
	for _, s := range append([]*attest.Statement{statement}, rec.outcome.Statements...) {
		bundle, err := signer.Sign(ctx, s)
		if err != nil {
			return fmt.Errorf("sign %s: %w", s.GetPredicateType(), err)
		}
		if err := r.Append(ctx, bundle); err != nil {
			return fmt.Errorf("append %s: %w", s.GetPredicateType(), err)
		}
	}
	return nil
}

// consistent refuses an outcome that calls itself passed beside a report that is not.
func consistent(o *Outcome) error {
	if o.Verdict == "" {
		return errors.New("the stage gave no verdict")
	}
	for _, rep := range o.Reports {
		if o.Verdict == schemas.Passed && rep.Verdict != kernels.Passed {
			return fmt.Errorf("the stage says passed, but its kernel %s says %s", rep.Kernel, rep.Verdict)
		}
	}
	return nil
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

func invocationID() string {
	var id [16]byte
	rand.Read(id[:]) // never fails (crypto/rand)
	return hex.EncodeToString(id[:])
}

// Continuer is a stage that picks up its own partial files.
type Continuer interface{ Continues() }

// prepareDir gives a stage an empty folder. What a failed run left is moved
// aside as a candidate, never written over.
func prepareDir(stage Stage, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if _, ok := stage.(Continuer); ok {
		return os.MkdirAll(dir, 0o755)
	}
	if len(entries) > 0 {
		for n := 1; ; n++ {
			candidate := fmt.Sprintf("%s%s%d", dir, candidateMark, n)
			if _, err := os.Lstat(candidate); errors.Is(err, os.ErrNotExist) {
				if err := os.Rename(dir, candidate); err != nil {
					return err
				}
				break
			}
		}
	}
	return os.MkdirAll(dir, 0o755)
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
