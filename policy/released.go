package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/schemas"
)

// Facts of a release.
const (
	factCompute = "compute"
	factState   = "state"
	// factEndpoint is who was asked; factMachine names the machine without telling which it is.
	factEndpoint = "endpoint"
	factMachine  = "machine"
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
	if in.release = in.newestRelease(); in.release != nil {
		in.use(in.release)
	}
}

func (in *inquiry) newestRelease() *Run {
	var newest *Run
	for _, run := range in.runs {
		if run.Uses != "release" || in.signed("release", run.Claims).Verdict != schemas.Passed {
			continue
		}
		if newest == nil || !newest.Finished.After(run.Finished) || in.sound(newest) && in.sound(run) {
			newest = run
		}
	}
	return newest
}

// ruleReleased wants the newest release to have found the rented compute in the
// state that the policy names: stopped is not deallocated, and is still paid for.
// No other machine may have been seen in another state and not been released.
func ruleReleased(in *inquiry) []Reason {
	if in.release == nil {
		return []Reason{undecided(rentedCompute, "no release claim by those who may sign one", in.wantReleased())}
	}
	reasons := []Reason{in.judgeRelease(in.release)}
	return append(reasons, in.judgeMachines()...)
}

const rentedCompute = "rented compute"

func (in *inquiry) wantReleased() string {
	return fmt.Sprintf("%s in %s", in.policy.Released.Compute, in.policy.Released.State)
}

// judgeRelease holds one release run against the policy.
func (in *inquiry) judgeRelease(run *Run) Reason {
	const what = rentedCompute
	want := in.wantReleased()
	res, err := run.Result(in.ev.Objects)
	if err != nil {
		return undecided(what, err.Error(), want).from(run.PAE())
	}
	got := fmt.Sprintf("%s in %s", res.Facts[factCompute], res.Facts[factState])
	endpoint, told := res.Facts[factEndpoint]
	switch {
	case res.Verdict == schemas.Undecided:
		return undecided(what, "undecided: "+res.Failure, want).from(run.PAE())
	case res.Verdict != schemas.Passed || res.ExitStatus != 0:
		return failed(what, "not released: "+res.Failure, want, run.PAE())
	case got != want:
		return failed(what, got, want, run.PAE())
	case !told:
		return undecided(what, "it does not say who was asked", want+", as "+in.policy.Released.Compute+" itself says").from(run.PAE())
	case !slices.Contains(providers[in.policy.Released.Compute], strings.TrimRight(endpoint, "/")) && !in.policy.Released.StandIn:
		return failed(what, got+", as "+endpoint+" says", want+", as "+in.policy.Released.Compute+" itself says", run.PAE())
	}
	return passed(what, got, want, run.PAE())
}

// providers are the addresses of those whose word on rented compute counts.
var providers = map[string][]string{
	"azure": {"https://management.azure.com", "https://management.usgovcloudapi.net", "https://management.chinacloudapi.cn"},
}

// judgeMachines wants each machine that was seen, by those who may sign that, to
// be in the state that the policy names when it was last heard of: the release
// of one says nothing of another, nor of its being started again.
func (in *inquiry) judgeMachines() []Reason {
	last := map[string]*Run{}
	for _, run := range in.runs {
		if run.Uses != "observe" && run.Uses != "release" || !slices.ContainsFunc(run.Claims, func(c attest.Claim) bool {
			return slices.Contains(in.policy.Signers[run.Uses].Functionaries, c.Functionary()) || slices.Contains(in.policy.Signers["release"].Functionaries, c.Functionary())
		}) {
			continue
		}
		if res, err := run.Result(in.ev.Objects); err == nil && res.Facts[factMachine] != "" {
			last[res.Facts[factMachine]] = run
		}
	}
	var reasons []Reason
	for _, machine := range sortedKeys(last) {
		run := last[machine]
		res, _ := run.Result(in.ev.Objects) // read above
		if run != in.release && res.Facts[factState] != in.policy.Released.State {
			reasons = append(reasons, failed("rented machine "+machine, fmt.Sprintf("last heard of by %s: %s", run.name(), res.Facts[factState]), in.policy.Released.State, run.PAE()))
		}
	}
	return reasons
}
