package stages

import (
	"context"
	"time"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/azure"
)

// firstSeen finds the first observation of a machine as allocated since it was
// last released, among the claims of observe and release stages.
func firstSeen(ctx context.Context, run *Run, machine string) (first time.Time, ok bool, err error) {
	ev, err := gather(ctx, run)
	if err != nil {
		return first, false, err
	}
	withdrawn := withdrawnClaims(run.Claims)
	runs, _ := policy.Runs(run.Claims)
	for _, r := range runs {
		if r.Uses != "observe" && r.Uses != "release" {
			continue
		}
		res, err := r.Result(ev.Objects)
		if _, gone := withdrawn[r.PAE()]; gone || err != nil || res.Facts["machine"] != machine {
			continue
		}
		switch {
		case res.Verdict == schemas.Passed && res.Facts["state"] == azure.Deallocated:
			first, ok = time.Time{}, false
		case r.Uses == "observe" && res.Verdict == schemas.Passed && !ok:
			if at, err := time.Parse(time.RFC3339, res.Facts["observed"]); err == nil {
				first, ok = at.UTC(), true
			}
		}
	}
	return first, ok, nil
}
