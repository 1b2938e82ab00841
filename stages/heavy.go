package stages

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/machine"
)

// Light are the stage types that run beside another project's heavy job: they
// move or hash bytes, or only decide, in little memory.
var Light = []string{"accept", "acquire", "complete", "deliver", "inspect", "observe", "release"}

// heavyName is the machine's lock in its root.
const heavyName = "heavy-job.lock"

const lockPoll = 200 * time.Millisecond

// machineLock takes the machine for a heavy stage: one at a time over all
// projects that share the root. It waits, and says for whom, or is refused.
func (r *Runner) machineLock(ctx context.Context, decl schemas.StageDecl) (release func(), err error) {
	if r.MachineRoot == "" || slices.Contains(Light, decl.Uses) {
		return func() {}, nil
	}
	path := filepath.Join(r.MachineRoot, heavyName)
	said := ""
	for {
		lock, left, err := acquireLock(path, r.holder(decl.Name))
		if err == nil {
			if left != "" {
				r.observe(Event{Stage: decl.Name, Uses: decl.Uses, Kind: "notice", Message: "the last heavy job of this machine did not end by itself: " + left})
			}
			return lock.release, nil
		}
		var locked *LockedError
		if !errors.As(err, &locked) {
			return nil, err
		}
		locked.Of = "this machine"
		if r.NoWait {
			return nil, locked
		}
		if locked.Who != said {
			said = locked.Who
			r.observe(Event{Stage: decl.Name, Uses: decl.Uses, Kind: "waiting", Message: "one heavy job at a time on this machine: waiting for " + said})
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("stopped while it waited for the machine: %w", errors.Join(context.Cause(ctx), locked))
		case <-time.After(lockPoll):
		}
	}
}

func (r *Runner) holder(stage string) holder {
	return holder{ProcessID: machine.Self(), Since: r.Now().UTC().Truncate(time.Second), Project: r.Project, Stage: stage}
}
