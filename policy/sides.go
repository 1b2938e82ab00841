package policy

import (
	"fmt"
	"slices"

	godigest "github.com/opencontainers/go-digest"
)

// inputsOf checks each input of a run on the path and returns the one that the previous stage type made.
func (in *inquiry) inputsOf(run *Run, previous string) (godigest.Digest, bool) {
	var primary godigest.Digest
	sound := true
	for _, input := range run.Inputs {
		if maker, _ := in.maker(input.Digest, previous); maker != nil && primary == "" {
			primary = input.Digest
			continue
		}
		if side := in.sideMaker(input.Digest); side != nil {
			in.addSide(side)
			continue
		}
		_, reason := in.maker(input.Digest, previous)
		if reason.What == "" {
			reason = failed("inputs of "+run.name(), "two inputs made by "+previous, "one", run.PAE())
		}
		reason.What, reason.Claim = fmt.Sprintf("input %s of %s: %s", input.Name, run.name(), reason.What), run.PAE()
		in.pathFaults = append(in.pathFaults, reason)
		sound = false
	}
	if primary == "" && sound {
		in.pathFaults = append(in.pathFaults, undecided("inputs of "+run.name(), "none", "an input made by "+previous).from(run.PAE()))
	}
	return primary, primary != "" && sound
}

func (in *inquiry) sideMaker(d godigest.Digest) *Run {
	for _, uses := range in.class.Side {
		if run, _ := in.maker(d, uses); run != nil {
			return run
		}
	}
	return nil
}

func (in *inquiry) addSide(run *Run) {
	in.use(run)
	if !slices.Contains(in.side, run) {
		in.side = append(in.side, run)
	}
}

// fromOutside are the stage types that start from what no stage made: a commit
// of a tool's source, which the rule built holds against the policy.
var fromOutside = map[string]bool{"patch": true}

// checkSides wants what a side run took to have been made on the path, or by
// another side run: an importance matrix of another model is not this model's,
// and a tool's build starts from a source that is known.
func (in *inquiry) checkSides() {
	for i := 0; i < len(in.side); i++ { // what a side run took adds further ones
		run := in.side[i]
		if len(run.Inputs) == 0 && !fromOutside[run.Uses] {
			in.pathFaults = append(in.pathFaults, undecided("inputs of "+run.name(), "none", "an output of the path").from(run.PAE()))
		}
		for _, input := range run.Inputs {
			if in.onPath(input.Digest) {
				continue
			}
			if side := in.sideMaker(input.Digest); side != nil && side != run {
				in.addSide(side)
			} else {
				in.pathFaults = append(in.pathFaults, failed(fmt.Sprintf("input %s of %s", input.Name, run.name()), input.Digest.String()+", which nothing on the path made", "an output of the path", run.PAE()))
			}
		}
		if run.Uses == "calibrate" && len(run.Inputs) > 0 && !slices.ContainsFunc(run.Inputs, in.ofPath) {
			in.pathFaults = append(in.pathFaults, failed("inputs of "+run.name(), "nothing that the path made", "the model that it is for", run.PAE()))
		}
	}
}

func (in *inquiry) onPath(d godigest.Digest) bool {
	return slices.ContainsFunc(in.path, func(p *Run) bool { return p != nil && p.makes(d) })
}

// ofPath tells whether something was made on the path, or by a side run from
// what was: a matrix is often measured on an 8-bit file of the same model.
func (in *inquiry) ofPath(d NamedDigest) bool {
	if in.onPath(d.Digest) {
		return true
	}
	side := in.sideMaker(d.Digest)
	return side != nil && side.Uses == "quantize" && slices.ContainsFunc(side.Inputs, func(i NamedDigest) bool { return in.onPath(i.Digest) })
}

// makerOf finds who made a digest, among the stage types wanted, nil without one.
func (in *inquiry) makerOf(d godigest.Digest, uses ...string) *Run {
	for _, u := range uses {
		if run, _ := in.maker(d, u); run != nil {
			return run
		}
	}
	return nil
}
