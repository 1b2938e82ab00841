package stages

import (
	"context"
	"time"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// rentSeen is what observe stages saw of a machine since it was last released.
type rentSeen struct {
	from  time.Time // first seen as allocated; zero when never
	until time.Time // since when it was seen as deallocated and nothing else; zero when it was not
	gap   bool      // it was seen as deallocated in between
}

// seenSince reads the claims of observe and release stages about a machine, in log order.
func seenSince(ctx context.Context, run *Run, machine string) (rentSeen, error) {
	var rent rentSeen
	ev, err := gather(ctx, run)
	if err != nil {
		return rent, err
	}
	withdrawn := withdrawnClaims(run.Claims)
	runs, _ := policy.Runs(run.Claims)
	for _, r := range runs {
		if r.Uses != "observe" && r.Uses != "release" {
			continue
		}
		res, err := r.Result(ev.Objects)
		if _, gone := withdrawn[r.PAE()]; gone || err != nil || res.Verdict != schemas.Passed || res.Facts["machine"] != machine {
			continue
		}
		if r.Uses == "release" { // what follows is another rent
			rent = rentSeen{}
			continue
		}
		at, err := time.Parse(time.RFC3339, res.Facts["observed"])
		if err != nil {
			continue
		}
		rent.observe(at.UTC(), res.Facts["state"] == Deallocated)
	}
	return rent, nil
}

func (r *rentSeen) observe(at time.Time, deallocated bool) {
	switch {
	case deallocated && !r.from.IsZero() && r.until.IsZero():
		r.until = at
	case !deallocated && r.from.IsZero():
		r.from = at
	case !deallocated && !r.until.IsZero():
		r.until, r.gap = time.Time{}, true
	}
}
