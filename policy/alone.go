package policy

import "github.com/weighmaster/weighmaster/schemas"

// ruleAlone wants the measurements of the stage types that the policy names to
// have been taken with no other model being served on the machine, as the run's
// receipt counted: a figure taken beside another resident model says nothing of
// this one.
func ruleAlone(in *inquiry) []Reason {
	const want = "no other model served on the machine"
	var reasons []Reason
	for _, uses := range in.policy.Alone.Uses {
		count := 0
		for _, run := range in.usedRuns() {
			if run.Uses != uses {
				continue
			}
			count++
			what := "what else ran beside " + run.name()
			res, err := run.Result(in.ev.Objects)
			got, told := res.Facts[schemas.FactModelServers]
			switch {
			case err != nil:
				reasons = append(reasons, undecided(what, err.Error(), want).from(run.PAE()))
			case !told:
				reasons = append(reasons, undecided(what, "the receipt does not tell", want).from(run.PAE()))
			case got != "0":
				reasons = append(reasons, failed(what, got+" model servers", want, run.PAE()))
			default:
				reasons = append(reasons, passed(what, "no model server", want, run.PAE()))
			}
		}
		if count == 0 {
			reasons = append(reasons, in.nobodyUsed("what else ran beside "+uses, uses, want))
		}
	}
	return reasons
}
