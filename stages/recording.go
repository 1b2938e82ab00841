package stages

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/schemas"
)

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

// record states, signs and appends a run and its further Statements. The
// provenance comes last: it alone makes the stage complete, so that whatever is
// lost before it makes the stage run again. A cancelled context does not stop
// it: what happened is recorded.
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
	for _, s := range append(slices.Clone(rec.outcome.Statements), statement) {
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
