package policy

import (
	"fmt"

	"github.com/weighmaster/weighmaster/schemas"
)

// Facts of a release.
const (
	factCompute = "compute"
	factState   = "state"
)

// Release is the newest release run among the claims that counts, nil without
// one: signed by those who may sign it, and not withdrawn. A run that gave its
// machine back did so for everything that was made on it.
func Release(p schemas.Policy, ev Evidence) (*Run, error) {
	ev, err := ev.ordered()
	if err != nil {
		return nil, err
	}
	in := &inquiry{policy: p, ev: ev, used: map[*Run]bool{}}
	in.dropWithdrawn()
	in.runs, _ = Runs(in.claims)
	in.findRelease()
	return in.release, nil
}

// findRelease takes the newest release run that is signed as the policy wants.
// One that says that it ended later, and did not pass, is newer still.
func (in *inquiry) findRelease() {
	for _, run := range in.runs {
		if run.Uses != "release" || in.signed("release", run.Claims).Verdict != schemas.Passed {
			continue
		}
		if in.release == nil || !in.release.Finished.After(run.Finished) || in.sound(in.release) && in.sound(run) {
			in.release = run
		}
	}
	if in.release != nil {
		in.use(in.release)
	}
}

// ruleReleased wants the newest release to have found the rented compute in the
// state that the policy names: stopped is not deallocated, and is still paid for.
func ruleReleased(in *inquiry) []Reason {
	const what = "rented compute"
	want := fmt.Sprintf("%s in %s", in.policy.Released.Compute, in.policy.Released.State)
	run := in.release
	if run == nil {
		return []Reason{undecided(what, "no release claim by those who may sign one", want)}
	}
	res, err := run.Result(in.ev.Objects)
	if err != nil {
		return []Reason{undecided(what, err.Error(), want).from(run.PAE())}
	}
	got := fmt.Sprintf("%s in %s", res.Facts[factCompute], res.Facts[factState])
	switch {
	case res.Verdict == schemas.Undecided:
		return []Reason{undecided(what, "undecided: "+res.Failure, want).from(run.PAE())}
	case res.Verdict != schemas.Passed || res.ExitStatus != 0:
		return []Reason{failed(what, "not released: "+res.Failure, want, run.PAE())}
	case got != want:
		return []Reason{failed(what, got, want, run.PAE())}
	}
	return []Reason{passed(what, got, want, run.PAE())}
}
