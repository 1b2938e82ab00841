package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/schemas"
)

// ruleSource holds the start of the chain against the pinned publisher revision.
func ruleSource(in *inquiry) []Reason {
	want := in.policy.Source.Repository + "@" + in.policy.Source.Revision
	if in.path[0] == nil {
		return []Reason{undecided("publisher revision", "the chain does not reach an acquire claim", want)}
	}
	run := in.path[0]
	pin := run.External.Publisher
	if pin == nil {
		return []Reason{failed("publisher revision", "the acquire claim names none", want, run.PAE())}
	}
	got := pin.Repository + "@" + pin.Revision
	if got != want {
		return []Reason{failed("publisher revision", got, want, run.PAE())}
	}
	return []Reason{passed("publisher revision", got, want, run.PAE())}
}

// ruleChain wants the exact path of stage types from the publisher to the artifact, joined by digests.
func ruleChain(in *inquiry) []Reason {
	if len(in.pathFaults) > 0 {
		return in.pathFaults
	}
	names := make([]string, len(in.path))
	for i, run := range in.path {
		if run == nil {
			return []Reason{undecided("chain", "no claim of "+in.class.Made[i], strings.Join(in.class.Made, " → "))}
		}
		names[i] = run.name()
	}
	return []Reason{passed("chain", strings.Join(names, " → "), strings.Join(in.class.Made, " → "), in.path[len(in.path)-1].PAE())}
}

// ruleResults wants every run that the decision rests on to have passed with exit status 0.
func ruleResults(in *inquiry) []Reason {
	var reasons []Reason
	for _, run := range in.usedRuns() {
		res, err := run.Result(in.ev.Objects)
		const want = "passed, exit status 0"
		switch {
		case err != nil:
			reasons = append(reasons, Reason{What: run.name(), Verdict: schemas.Undecided, Got: err.Error(), Want: want, Claim: run.PAE()})
		case res.Verdict == schemas.Undecided:
			reasons = append(reasons, Reason{What: run.name(), Verdict: schemas.Undecided, Got: "undecided: " + res.Failure, Want: want, Claim: run.PAE()})
		case res.Verdict != schemas.Passed || res.ExitStatus != 0:
			reasons = append(reasons, failed(run.name(), fmt.Sprintf("%s, exit status %d: %s", res.Verdict, res.ExitStatus, res.Failure), want, run.PAE()))
		default:
			reasons = append(reasons, passed(run.name(), "passed, exit status 0", want, run.PAE()))
		}
	}
	return reasons
}

// ruleLicence wants the licence that the publisher declares to be one that the policy allows.
func ruleLicence(in *inquiry) []Reason {
	want := strings.Join(in.policy.Licences, ", ")
	if in.path[0] == nil {
		return []Reason{undecided("licence", "no acquire claim", want)}
	}
	res, err := in.path[0].Result(in.ev.Objects)
	if err != nil {
		return []Reason{undecided("licence", err.Error(), want).from(in.path[0].PAE())}
	}
	got := res.Facts["licence"]
	switch {
	case got == "" || got == "absent":
		return []Reason{undecided("licence", "the publisher declares none", want).from(in.path[0].PAE())}
	case !slices.Contains(in.policy.Licences, got):
		return []Reason{failed("licence", got, want, in.path[0].PAE())}
	}
	return []Reason{passed("licence", got, want, in.path[0].PAE())}
}
