package stages

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/schemas"
)

// runStage takes one stage from the ledger or runs it.
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
	}
	external := r.external(decl)
	out, complete, err := r.complete(ctx, stage, run, decl, external)
	if err != nil {
		return err
	}
	if complete {
		r.forget(decl)
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
	release, err := r.machineLock(ctx, decl)
	if err != nil {
		return fmt.Errorf("stage %s: %w", decl.Name, err)
	}
	defer release()
	rec := record{decl: decl, external: external, inputs: inputs, invocation: invocationID()}
	if err := r.recordInterrupted(ctx, signer, rec, claims); err != nil {
		return err
	}
	if err := prepareDir(stage, run.Dir); err != nil {
		return fmt.Errorf("stage %s: %w", decl.Name, err)
	}
	return r.execute(ctx, stage, run, rec, signer, made)
}

// complete tells whether a stage need not run: it is proven here, or by what another machine's evidence proves.
func (r *Runner) complete(ctx context.Context, stage Stage, run *Run, decl schemas.StageDecl, external schemas.ExternalParameters) (*Artifact, bool, error) {
	if r.isElsewhere(decl) {
		out, err := r.proven(ctx, run, external, decl)
		return out, err == nil, err
	}
	if err := takesRemote(stage, decl, run.Inputs); err != nil {
		return nil, false, err
	}
	out, ok := r.resume(ctx, stage, run, external, signerName(decl))
	return out, ok, nil
}

// execute runs a stage, watched, and records how it ended.
func (r *Runner) execute(ctx context.Context, stage Stage, run *Run, rec record, signer attest.Signer, made map[string]Artifact) error {
	decl := rec.decl
	rec.start = r.Now().Round(0) // by the clock alone: it is what gets stated
	watch := r.watch(rec)        // before anything is told or done: what stays of it tells of a run that began
	r.observe(Event{Stage: decl.Name, Uses: decl.Uses, Kind: "started"})
	began := time.Now()
	run.Progress = watch.progress
	var err error
	rec.outcome, err = stage.Run(ctx, run)
	elapsed := time.Since(began)
	if err == nil && rec.outcome == nil {
		err = errors.New("the stage gave no outcome")
	}
	if err != nil {
		rec.outcome = failedOutcome(rec.outcome, err)
	}
	stopped := sayStopped(ctx, rec.outcome)
	watch.stop(ctx, rec.outcome)
	rec.finish(r.Now().Round(0), elapsed)
	if err := r.record(ctx, signer, rec); err != nil {
		return errors.Join(fmt.Errorf("stage %s ran (%s) but could not be recorded", decl.Name, rec.outcome.Verdict), err)
	}
	watch.forget()
	o := rec.outcome
	event := Event{Stage: decl.Name, Uses: decl.Uses, Kind: "finished", Elapsed: elapsed, Verdict: o.Verdict, Failure: o.Failure, Output: o.Output}
	for _, rep := range o.Reports {
		event.Controls.Planted += rep.Controls.Planted
		event.Controls.Red += rep.Controls.Red
		event.Controls.Missed += rep.Controls.Missed
	}
	r.observe(event)
	if o.Verdict != schemas.Passed || o.ExitStatus != 0 {
		return &StageError{Stage: decl.Name, Uses: decl.Uses, Verdict: o.Verdict, Failure: o.Failure, Stopped: stopped}
	}
	if o.Output != nil {
		made[decl.Name] = *o.Output
	}
	return nil
}

// sayStopped puts the reason why a run was told to stop before a failure that it caused.
func sayStopped(ctx context.Context, o *Outcome) bool {
	if ctx.Err() == nil || o.Verdict == schemas.Passed {
		return false
	}
	if cause := context.Cause(ctx); cause != ctx.Err() {
		o.Failure = fmt.Sprintf("%v: %s", cause, o.Failure)
	}
	return true
}

// clockTolerance is how far the clock may move against the one that nobody sets before it is told.
const clockTolerance = time.Second

// finish states the end by the clock. Where the clock was set back beyond the
// start, the end is the start and the time that really passed: a run never ends
// before it began. A clock that moved is told.
func (rec *record) finish(now time.Time, elapsed time.Duration) {
	rec.end = now
	jump := now.Sub(rec.start) - elapsed
	if rec.end.Before(rec.start) {
		rec.end = rec.start.Add(elapsed)
	}
	if jump.Abs() < clockTolerance || rec.start.Equal(now) {
		return
	}
	if rec.outcome.Internal == nil {
		rec.outcome.Internal = map[string]any{}
	}
	rec.outcome.Internal["clockMovedSeconds"] = jump.Seconds() // it was set, or the machine slept
}

func invocationID() string {
	var id [16]byte
	rand.Read(id[:]) // never fails (crypto/rand)
	return hex.EncodeToString(id[:])
}
