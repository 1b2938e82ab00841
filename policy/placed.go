package policy

import (
	"slices"
	"strings"
)

// placementKernel reads where a tool's weights lay from the tool's own log.
const placementKernel = "placement"

// weightsOn is how the placement kernel names the bytes of weights on a device, which follows.
const weightsOn = "bytes/"

// rulePlaced wants every weight buffer of the runs that the policy names to have
// lain on a device that it names, as the tool's own log listed them buffer by
// buffer. How many layers a log counts as offloaded says nothing of the rest.
func rulePlaced(in *inquiry) []Reason {
	want := "every weight on " + strings.Join(in.policy.Placed.Devices, " or ")
	var reasons []Reason
	for _, uses := range in.policy.Placed.Uses {
		count := 0
		for _, run := range in.usedRuns() {
			if run.Uses == uses {
				count++
				reasons = append(reasons, in.judgePlacement(run, want)...)
			}
		}
		if count == 0 {
			reasons = append(reasons, in.nobodyUsed("placement of "+uses, uses, want))
		}
	}
	return reasons
}

func (in *inquiry) judgePlacement(run *Run, want string) []Reason {
	what := "placement of " + run.name()
	reports, err := run.Reports(in.ev.Objects)
	if err != nil {
		return []Reason{undecided(what, err.Error(), want).from(run.PAE())}
	}
	var reasons []Reason
	for _, rep := range reports {
		if rep.Kernel != placementKernel {
			continue
		}
		reasons = append(reasons, judgeVerdict(what, run, rep))
		var on, elsewhere []string
		for _, m := range rep.Metrics {
			device, ok := strings.CutPrefix(m.Name, weightsOn)
			if !ok || m.Value == 0 {
				continue
			}
			on = append(on, number(m.Value)+" "+m.Unit+" on "+device)
			if !slices.Contains(in.policy.Placed.Devices, device) {
				elsewhere = append(elsewhere, on[len(on)-1])
			}
		}
		switch {
		case len(on) == 0:
			reasons = append(reasons, undecided(what, "no buffer of weights is listed", want).from(run.PAE()))
		case len(elsewhere) > 0:
			reasons = append(reasons, failed(what, strings.Join(elsewhere, ", "), want, run.PAE()))
		default:
			reasons = append(reasons, passed(what, strings.Join(on, ", "), want, run.PAE()))
		}
	}
	if len(reasons) == 0 {
		return []Reason{undecided(what, "no report of kernel "+placementKernel, want).from(run.PAE())}
	}
	return reasons
}

// nobodyUsed is the answer of a rule about runs of a stage type where there is
// none: a class that has no use for it needs none.
func (in *inquiry) nobodyUsed(what, uses, want string) Reason {
	if slices.Contains(signedTypes(in.class), uses) || len(in.pathFaults) > 0 {
		return undecided(what, "no run", want)
	}
	return passed(what, "none: the class has no use for it", want, "")
}
