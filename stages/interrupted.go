package stages

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"time"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/machine"
)

// BusyError says that something of an earlier run still runs.
type BusyError struct{ Stage, What string }

func (e *BusyError) Error() string {
	return fmt.Sprintf("stage %s: %s; one heavy job at a time: wait for it to end, or end it", e.Stage, e.What)
}

// lookForInterrupted tells of runs that ended without a record, and refuses to
// start beside a process of theirs. The caller holds the project's lock.
func (r *Runner) lookForInterrupted() error {
	if r.Interval <= 0 {
		return nil
	}
	list, faults := ReadProgress(r.Project)
	for _, err := range faults {
		r.observe(Event{Kind: "notice", Message: err.Error()})
	}
	self := machine.Self()
	for _, u := range list {
		if state := machine.Look(u.Process); (state == machine.Alive || state == machine.Stopped) && u.Process != self {
			return &BusyError{u.Stage, fmt.Sprintf("process %d runs it, though it does not hold %s (was that removed?): %s", u.Process.PID, lockName, became(u.Process))}
		}
		for _, tool := range u.Tools {
			if !ends(tool.ProcessID) {
				return &BusyError{u.Stage, fmt.Sprintf("its run ended without a record, and a program that it started is still there: %s, process %d", tool.Name, tool.PID)}
			}
		}
		r.observe(Event{Stage: u.Stage, Uses: u.Uses, Kind: "interrupted", Message: u.lastWord()})
	}
	return nil
}

// lastBreath is how long a tool may take to end after the run that it died with.
const lastBreath = 2 * time.Second

func ends(id schemas.ProcessID) bool {
	for until := time.Now().Add(lastBreath); ; time.Sleep(lastBreath / 40) {
		if state := machine.Look(id); state != machine.Alive && state != machine.Stopped {
			return true
		}
		if time.Now().After(until) {
			return false
		}
	}
}

func (u Unfinished) lastWord() string {
	const when = "2006-01-02T15:04:05Z07:00"
	return fmt.Sprintf("its run of %s ended without a record, last heard of at %s: %s", u.Started.Format(when), u.Updated.Format(when), became(u.Process))
}

// recordInterrupted puts a run of this stage that ended without a record into
// the ledger as failed, if it was of the same declaration on the same inputs and
// the ledger has no word of it. What it made is moved aside as a candidate, or
// taken up by a stage that continues.
func (r *Runner) recordInterrupted(ctx context.Context, signer attest.Signer, now record, claims []attest.Claim) error {
	if r.Interval <= 0 {
		return nil
	}
	u := Unfinished{Path: progressPath(r.Project, now.decl.Name)}
	if err := readProgress(u.Path, &u.Progress); err != nil {
		return nil // none, or none that tells anything
	}
	same := u.Uses == now.decl.Uses && u.Declaration == declarationDigest(now.external) && maps.Equal(u.Inputs, inputDigests(now.inputs))
	if same && !hasInvocation(claims, u.Invocation) {
		rec := now
		rec.invocation, rec.start, rec.end = u.Invocation, u.Started, u.Updated
		if rec.end.Before(rec.start) {
			rec.end = rec.start
		}
		rec.outcome = failedOutcome(nil, errors.New("interrupted: "+u.lastWord()))
		if err := r.record(ctx, signer, rec); err != nil {
			return fmt.Errorf("stage %s: its interrupted run could not be recorded: %w", now.decl.Name, err)
		}
	}
	return os.Remove(u.Path)
}

func hasInvocation(claims []attest.Claim, id string) bool {
	for _, c := range claims {
		if c.PredicateType() != attest.ProvenanceType {
			continue
		}
		var p provenance.Provenance
		if protojson.Unmarshal(c.Predicate(), &p) == nil && p.GetRunDetails().GetMetadata().GetInvocationId() == id {
			return true
		}
	}
	return false
}

// forget removes the word of progress of a stage that the ledger proves complete.
func (r *Runner) forget(decl schemas.StageDecl) {
	if r.Interval > 0 {
		_ = os.Remove(progressPath(r.Project, decl.Name)) // mostly there is none
	}
}
