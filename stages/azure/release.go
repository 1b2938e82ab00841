package azure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages"
)

// callTime bounds one request.
const callTime = time.Minute

// settle is how many observations in a row must say that a machine is not
// deallocated, after its operation ended, before that is believed: the instance
// view may lag behind for a moment.
const settle = 3

// Result is how a release ended. Only a machine that was seen as
// [stages.Deallocated], by identity, in two observations, has verdict passed.
type Result struct {
	Verdict   schemas.Verdict
	Failure   string       // no account identifiers; empty when passed
	Already   bool         // it was deallocated before anything was asked
	Requested time.Time    // when the deallocation was first asked for; zero when never
	Verified  time.Time    // when it was first seen as deallocated; zero when never
	State     string       // the last power state seen
	Last      *Observation // the last complete observation
	Events    []stages.RentalEvent
}

// release is one release under way.
type release struct {
	c        *Client
	m        schemas.Compute
	r        Result
	asked    bool // the request was sent, whether or not it arrived
	accepted bool // Azure took the request
	moved    bool // it was seen deallocating or deallocated
	poller   *runtime.Poller[armcompute.VirtualMachinesClientDeallocateResponse]
	op       string        // how the operation ended; empty while it runs
	stays    int           // observations in a row that show it allocated although the operation ended
	after    time.Duration // Retry-After of the last answer
}

// Release deallocates the machine and waits, within the bound, until its
// instance view says so. It never fails with an error: what happened is the
// result's verdict. Failed: another machine answers, or the machine is still
// allocated although its operation ended. Undecided: Azure could not be asked,
// or did not end in time; running again goes on from what is then seen.
func (c *Client) Release(ctx context.Context, m schemas.Compute, b stages.RentalBound) Result {
	rel := &release{c: c, m: m}
	rel.run(ctx, b)
	return rel.r
}

func (rel *release) run(ctx context.Context, b stages.RentalBound) {
	start := rel.c.now()
	why := ""
	for n := 1; ; n++ {
		var done bool
		if done, why = rel.step(ctx); done {
			return
		}
		wait := max(b.Interval, rel.after)
		rel.after = 0
		switch spent := rel.c.now().Sub(start); {
		case ctx.Err() != nil:
			rel.end(schemas.Undecided, "interrupted: "+why+rel.resume())
			return
		case n >= b.Attempts || spent+wait > b.Within:
			rel.end(schemas.Undecided, fmt.Sprintf("%s after %d observations in %s (the bound is %d in %s)%s", why, n, spent.Round(time.Second), b.Attempts, b.Within, rel.resume()))
			return
		}
		if err := rel.c.sleep(ctx, wait); err != nil {
			rel.end(schemas.Undecided, "interrupted: "+why+rel.resume())
			return
		}
	}
}

func (rel *release) resume() string {
	if rel.asked {
		return "; deallocation was asked for; run this stage again: it goes on from what it then sees"
	}
	return "; run this stage again"
}

// step looks once and does what follows. Why says what is still missing.
func (rel *release) step(ctx context.Context) (done bool, why string) {
	vm, err := rel.c.look(ctx, rel.m)
	if err != nil {
		return rel.fault(err)
	}
	o := rel.c.observed(rel.m, vm)
	rel.r.State = o.Power
	rel.note("seen: %s%s", o.Power, o.PowerFault)
	switch o.Power {
	case stages.Deallocated:
		return rel.confirm(ctx)
	case powerPrefix + "deallocating":
		rel.moved = true
		rel.poll(ctx)
		return false, "still " + o.Power
	}
	if !rel.r.Verified.IsZero() {
		return rel.end(schemas.Failed, fmt.Sprintf("it was deallocated and then %s again; compute is allocated and billed: find out who started it", stated(o)))
	}
	if rel.asked && (rel.accepted || rel.moved) {
		rel.poll(ctx)
		return rel.judge(o)
	}
	if !rel.asked && rel.moved { // somebody else's deallocation came undone
		return rel.end(schemas.Failed, fmt.Sprintf("it was deallocating and then %s again; find out who started it", stated(o)))
	}
	return rel.request(ctx, o)
}

// request asks for the deallocation. An answer that was lost is no answer: the
// next observation tells.
func (rel *release) request(ctx context.Context, o Observation) (done bool, why string) {
	if rel.r.Requested.IsZero() {
		rel.r.Requested = rel.c.now().UTC()
	}
	rel.asked = true
	rel.note("asking for deallocation")
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	poller, err := rel.c.vms.BeginDeallocate(ctx, rel.m.ResourceGroup, rel.m.Name, nil)
	if err != nil {
		return rel.fault(callError("ask for deallocation", err))
	}
	rel.accepted, rel.poller = true, poller
	rel.note("the request was accepted; that is not yet a deallocation")
	return false, "the request was accepted and the machine is still " + stated(o)
}

// poll asks once how the operation is.
func (rel *release) poll(ctx context.Context) {
	if rel.poller == nil || rel.op != "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	resp, err := rel.poller.Poll(ctx)
	if err == nil && resp != nil {
		rel.after = retryAfter(resp)
	}
	if err == nil && rel.poller.Done() {
		_, err = rel.poller.Result(ctx)
		if err == nil {
			rel.op = "ended"
			rel.note("the operation ended")
			return
		}
	}
	if err == nil {
		return
	}
	e := callError("ask for the operation", err)
	rel.after = e.After
	rel.note("%v", e)
	if !e.again() || rel.poller.Done() {
		rel.op = "ended with an error: " + e.Error()
	}
}

// judge looks at a machine that is neither deallocated nor deallocating
// although it was asked to be.
func (rel *release) judge(o Observation) (done bool, why string) {
	if rel.op == "" && !rel.moved || o.Power == "" {
		return false, "the operation runs and the machine is still " + stated(o)
	}
	if rel.stays++; rel.stays < settle {
		return false, "the machine is " + stated(o) + " although it was deallocating"
	}
	how := "after the operation " + rel.op
	if rel.op == "" {
		how = "after it was deallocating"
	}
	hint := "compute is allocated and billed"
	if o.Power == powerPrefix+"stopped" {
		hint = "stopped is not deallocated: a stopped guest keeps its hardware, and compute is billed"
	}
	return rel.end(schemas.Failed, fmt.Sprintf("the machine is %s %s, want %s; %s", stated(o), how, stages.Deallocated, hint))
}

// confirm looks a second time, completely, once the machine was seen as deallocated.
func (rel *release) confirm(ctx context.Context) (done bool, why string) {
	if rel.r.Verified.IsZero() {
		rel.r.Verified = rel.c.now().UTC()
	}
	o, err := rel.c.Observe(ctx, rel.m)
	if err != nil {
		return rel.fault(err)
	}
	rel.r.Last, rel.r.State = &o, o.Power
	if o.Power != stages.Deallocated {
		rel.note("seen: %s%s", o.Power, o.PowerFault)
		return rel.end(schemas.Failed, fmt.Sprintf("it was deallocated and then %s; compute may be allocated and billed again", stated(o)))
	}
	rel.r.Already = !rel.asked && !rel.moved
	rel.note("confirmed: %s", o.Power)
	return rel.end(schemas.Passed, "")
}

// fault judges an error: what may pass is tried again within the bound.
func (rel *release) fault(err error) (done bool, why string) {
	rel.note("%v", err)
	var other *stages.OtherMachine
	var call *CallError
	switch {
	case errors.As(err, &other) && rel.asked:
		return rel.end(schemas.Failed, "since the identity was checked the machine became another: "+err.Error())
	case errors.As(err, &other):
		return rel.end(schemas.Failed, err.Error())
	case errors.As(err, &call) && call.again():
		rel.after = call.After
		return false, err.Error()
	}
	return rel.end(schemas.Undecided, err.Error())
}

func (rel *release) end(v schemas.Verdict, failure string) (bool, string) {
	rel.r.Verdict, rel.r.Failure = v, failure
	return true, failure
}

func (rel *release) note(format string, args ...any) {
	rel.r.Events = append(rel.r.Events, stages.RentalEvent{At: rel.c.now().UTC(), What: fmt.Sprintf(format, args...)})
}

// stated is the power state, or why there is none.
func stated(o Observation) string {
	if o.Power == "" {
		return "in no power state: " + o.PowerFault
	}
	return o.Power
}
