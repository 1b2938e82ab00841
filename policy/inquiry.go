package policy

import (
	"fmt"
	"slices"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/schemas"
)

// inquiry is one question with the evidence read as runs.
type inquiry struct {
	policy   schemas.Policy
	class    schemas.Class
	decision schemas.DecisionRule
	ev       Evidence
	q        Question

	claims    []attest.Claim // without the dropped
	withdrawn map[godigest.Digest]schemas.Withdrawal
	dropped   map[godigest.Digest]bool   // of the withdrawn, those that are not looked at
	taken     map[godigest.Digest]Taken  // as withdrawn
	fallen    map[godigest.Digest]Fallen // decisions that rest on the withdrawn
	runs      []*Run
	used      map[*Run]bool
	usedVSA   []attest.Claim
	notes     []Reason

	path       []*Run // from acquire to the artifact; nil entries where the chain has a hole
	side       []*Run
	pathFaults []Reason
	checks     []check
	parities   []*Run  // about a vocabulary of the path's
	probes     []probe // isolate runs, in log order
	release    *Run    // the newest; nil without one
}

// check is one required examination with every run that made it.
type check struct {
	rule schemas.CheckRule
	runs []*Run
}

func newInquiry(p schemas.Policy, class schemas.Class, decision schemas.DecisionRule, ev Evidence, q Question) *inquiry {
	in := &inquiry{policy: p, class: class, decision: decision, ev: ev, q: q, used: map[*Run]bool{}}
	in.dropWithdrawn()
	in.runs, _ = Runs(in.claims)
	in.trace()
	in.checkSides()
	in.findChecks()
	for name, uses := range map[string]string{"delivered": "deliver", "reloaded": "reload"} {
		if run := in.newest(uses); run != nil && slices.Contains(decision.Requires, name) {
			in.use(run)
		}
	}
	for rule, find := range map[string]func(){"parity": in.findParity, "released": in.findRelease} {
		if slices.Contains(decision.Requires, rule) {
			find()
		}
	}
	if slices.Contains(decision.Requires, "boxed") { // last: it looks at every tool that the others brought
		in.findProbes()
	}
	return in
}

// newest is the last run of a stage type over the artifact, nil without one.
// Where a run lies is the word of a log, of another one perhaps; when it ended
// is its signers'. So one that did not pass, and says that it ended later, is the last.
func (in *inquiry) newest(uses string) *Run {
	var list []*Run
	for _, run := range in.runs {
		if run.Uses == uses && run.takes(in.q.Artifact) {
			list = append(list, run)
		}
	}
	if len(list) == 0 {
		return nil
	}
	newest := list[len(list)-1]
	for _, run := range list {
		if run.Finished.After(newest.Finished) && !in.sound(run) && in.signed(uses, run.Claims).Verdict == schemas.Passed {
			newest = run
		}
	}
	return newest
}

// trace walks from the artifact back to the publisher along class.Made.
func (in *inquiry) trace() {
	in.path = make([]*Run, len(in.class.Made))
	want := in.q.Artifact
	for i := len(in.class.Made) - 1; i >= 0; i-- {
		run, reason := in.maker(want, in.class.Made[i])
		if run == nil {
			in.pathFaults = append(in.pathFaults, reason)
			return
		}
		in.use(run)
		in.path[i] = run
		if i > 0 {
			next, ok := in.inputsOf(run, in.class.Made[i-1])
			if !ok {
				return
			}
			want = next
		}
	}
}

// maker finds the run of the wanted type that made d: the newest that is
// signed as the policy wants and passed, else the newest at all.
func (in *inquiry) maker(d godigest.Digest, uses string) (*Run, Reason) {
	var best *Run
	var others []string
	for _, run := range in.runs {
		if !run.makes(d) {
			continue
		}
		if run.Uses != uses {
			others = append(others, run.name())
			continue
		}
		if best == nil || in.sound(run) || !in.sound(best) {
			best = run
		}
	}
	what := fmt.Sprintf("%s was made by stage type %s", d, uses)
	others = makersBut(others, uses)
	switch {
	case best != nil:
		return best, Reason{}
	case len(others) > 0:
		return nil, failed(what, "made by "+strings.Join(others, ", "), uses, "")
	}
	return nil, undecided(what, "no claim by a trusted functionary says who made it", "a claim of stage type "+uses)
}

// makersBut leaves out stages that pass bytes on without making them: a
// delivered file is the same file.
func makersBut(names []string, uses string) []string {
	return slices.DeleteFunc(names, func(n string) bool { return strings.HasSuffix(n, "(deliver)") && uses != "deliver" })
}

// source is the digest of what acquire made and the path started from.
func (in *inquiry) source() (godigest.Digest, bool) {
	if len(in.path) < 2 || in.path[0] == nil || in.path[1] == nil {
		return "", false
	}
	for _, input := range in.path[1].Inputs {
		if in.path[0].makes(input.Digest) {
			return input.Digest, true
		}
	}
	return "", false
}

// findChecks collects, for each required examination, every run of it: one good
// report never hides a bad one.
func (in *inquiry) findChecks() {
	source, haveSource := in.source()
	for _, rule := range in.class.Checked {
		c := check{rule: rule}
		subject := in.q.Artifact
		if rule.Of == "source" {
			subject = source
		}
		for _, run := range in.runs {
			if run.Uses != rule.Uses || (rule.Of == "source" && !haveSource) || !run.takes(subject) {
				continue
			}
			if rule.Against != "" && !(haveSource && in.against(run, rule.Against, source)) {
				continue
			}
			in.use(run)
			c.runs = append(c.runs, run)
		}
		in.checks = append(in.checks, c)
	}
}

// against tells whether a run had the source, or the output of a run of the
// named type over the source, among its inputs.
func (in *inquiry) against(run *Run, what string, source godigest.Digest) bool {
	if what == "source" {
		return run.takes(source)
	}
	for _, input := range run.Inputs {
		if other, _ := in.maker(input.Digest, what); other != nil && other.takes(source) {
			in.use(other)
			return true
		}
	}
	return false
}

func (in *inquiry) use(run *Run) { in.used[run] = true }

// usedRuns are the runs that the decision rests on, in log order.
func (in *inquiry) usedRuns() []*Run {
	return slices.DeleteFunc(slices.Clone(in.runs), func(r *Run) bool { return !in.used[r] })
}

func (in *inquiry) usedClaims() []godigest.Digest {
	used := map[godigest.Digest]bool{}
	for _, run := range in.usedRuns() {
		for _, c := range run.Claims {
			used[c.Bundle()] = true
		}
	}
	for _, c := range in.usedVSA {
		used[c.Bundle()] = true
	}
	var list []godigest.Digest
	for _, c := range in.claims {
		if used[c.Bundle()] {
			list = append(list, c.Bundle())
		}
	}
	return list
}

// sound tells whether a run is signed as the policy wants and ended well.
func (in *inquiry) sound(run *Run) bool {
	if in.signed(run.Uses, run.Claims).Verdict != schemas.Passed {
		return false
	}
	res, err := run.Result(in.ev.Objects)
	return err == nil && res.Verdict == schemas.Passed && res.ExitStatus == 0
}
