package stages

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/weighmaster/weighmaster/schemas"
)

// Release gives rented compute back, once nothing that was accepted there can
// be lost, and is passed only when the provider itself says that it is
// deallocated. It takes no bytes; inputs that it is given were hashed by the
// runner and count as local copies.
type Release struct {
	Connect ConnectRental // the way to the machine's provider
}

// Uses implements [Stage].
func (Release) Uses() string { return "release" }

// Unrepeatable: what was deallocated once may be allocated now.
func (Release) Unrepeatable() {}

// TakesRemote implements [RemoteTaker]: bytes elsewhere are refused here, by name.
func (Release) TakesRemote() {}

type releaseWith struct {
	VM       string
	Requires []string
	Poll     struct {
		Attempts         int
		Interval, Within string
	}
}

func (w releaseWith) bound() (b RentalBound, err error) {
	b = RentalBound{Attempts: 120, Interval: 15 * time.Second, Within: 30 * time.Minute}
	if w.Poll.Attempts > 0 {
		b.Attempts = w.Poll.Attempts
	}
	if w.Poll.Interval != "" {
		b.Interval, err = time.ParseDuration(w.Poll.Interval)
	}
	if w.Poll.Within != "" && err == nil {
		b.Within, err = time.ParseDuration(w.Poll.Within)
	}
	return b, err
}

// Run implements [Stage]. First the machine is identified; then everything that
// forbids the release is looked for and all of it told; only then is it released.
func (s Release) Run(ctx context.Context, run *Run) (*Outcome, error) {
	var with releaseWith
	if err := decodeWith(run, &with); err != nil {
		return nil, err
	}
	bound, err := with.bound()
	if err != nil {
		return nil, fmt.Errorf("stage %s: %w", run.Stage, err)
	}
	m, file, err := readCompute(run, with.VM)
	if err != nil {
		return nil, err
	}
	rental, err := s.Connect.rental(run, m)
	if err != nil {
		return nil, err
	}
	out := computeOutcome(m, file, rental)
	rec := computeRecord{Machine: m, Endpoint: rental.Endpoint()}
	if err := release(ctx, run, with, m, bound, rental, out, &rec); err != nil {
		return out, err
	}
	return out, out.keepCompute(ctx, run, rec)
}

func release(ctx context.Context, run *Run, with releaseWith, m schemas.Compute, bound RentalBound, rental Rental, out *Outcome, rec *computeRecord) error {
	before, err := rental.Observe(ctx)
	if err != nil {
		out.Verdict, out.Failure = verdictOf(err), err.Error()
		return nil
	}
	rec.Before = before.Private
	out.seen(before)
	open, err := blockers(ctx, run, with.Requires)
	if err != nil {
		return err
	}
	if rental.Here() {
		open = append(open, "this program runs on that very machine: what is here is gone with it; release it from the machine that the files were delivered to")
	}
	open = append(open, busyTags(m, before)...)
	if len(open) == 0 { // a check asks another machine: only for what may be released
		rec.Checks = runChecks(ctx, run, m.Checks)
		open = failedChecks(rec.Checks)
	}
	if len(open) > 0 {
		out.Verdict, out.Failure = schemas.Failed, "compute is not released, nothing was asked of it: "+list(open)
		return nil
	}
	run.say("deallocating")
	r := rental.Release(ctx, bound)
	rec.Events = r.Events
	if r.Last != nil {
		rec.After = r.Last.Private
		out.seen(*r.Last)
	}
	if r.State != "" {
		out.Facts["state"] = r.State
	}
	out.Verdict, out.Failure = r.Verdict, r.Failure
	if r.Verdict != schemas.Passed {
		return nil
	}
	out.Facts["released"] = timestamp(r.Verified)
	out.Facts["already"] = fmt.Sprint(r.Already)
	return out.allocation(ctx, run, m, before, r)
}

func (r *Run) say(message string) {
	if r.Progress != nil {
		r.Progress(message, 0, 0)
	}
}

// list joins what is open, numbered when there is more than one.
func list(open []string) string {
	if len(open) == 1 {
		return open[0]
	}
	s := fmt.Sprintf("%d things forbid it:", len(open))
	for i, what := range open {
		s += fmt.Sprintf(" (%d) %s;", i+1, what)
	}
	return s[:len(s)-1]
}

// allocation states the interval in which compute was allocated, for cost
// sheets: apart from reports and facts of acceptance, and only where its start
// is known. The start was given, with its source, or is the first observation
// of the running machine since it was last released; of two the earlier counts.
// The end is the first moment at which it was seen as deallocated.
func (o *Outcome) allocation(ctx context.Context, run *Run, m schemas.Compute, before RentalState, r RentalResult) error {
	a := schemas.Allocation{Schema: schemas.AllocationURI, Machine: o.Facts["machine"], Size: before.Size, GPU: before.GPU, To: r.Verified.UTC(), Already: r.Already, Disks: before.Disks}
	if m.Allocated != nil {
		a.From, a.Source = m.Allocated.From.UTC(), "given"
	}
	seen, err := seenSince(ctx, run, a.Machine)
	if err != nil {
		return err
	}
	if !seen.from.IsZero() && (a.From.IsZero() || seen.from.Before(a.From)) {
		a.From, a.Source = seen.from, "observed: allocated at least since then"
	}
	if r.Already && !seen.until.IsZero() && seen.until.Before(a.To) {
		a.To = seen.until
	}
	if seen.gap {
		a.Source += "; seen deallocated in between, so that the interval is too long"
	}
	switch {
	case a.From.IsZero():
		a.Source = "unknown"
	case a.From.After(a.To):
		a.From, a.Source = time.Time{}, "unknown: the given start lies after the release; check zones and clocks"
	default:
		o.Facts["allocated"] = timestamp(a.From) + "/" + timestamp(a.To)
	}
	o.Facts["allocatedBy"] = a.Source
	body, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return o.store(ctx, run, "cost/allocation", "application/json", body)
}
