package policy

import (
	"fmt"
	"slices"
	"strings"

	scai "github.com/in-toto/attestation/go/predicates/scai/v0"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/schemas"
)

// probe is an isolate run with the SCAI Statements about what it found.
type probe struct {
	run    *Run
	res    schemas.Result
	claims []attest.Claim
}

// findProbes reads the isolate runs, in log order, each with the Statements that
// are about what it left behind.
func (in *inquiry) findProbes() {
	for _, run := range in.runs {
		if run.Uses != "isolate" {
			continue
		}
		p := probe{run: run}
		p.res, _ = run.Result(in.ev.Objects) // one that cannot be read has no box, and fits none
		for _, c := range in.claims {
			if c.PredicateType() == attest.SCAIType && slices.ContainsFunc(run.Subjects, func(s NamedDigest) bool { return s.Digest != "" && subjectHas(c, s.Digest) }) {
				p.claims = append(p.claims, c)
			}
		}
		in.probes = append(in.probes, p)
	}
	for _, run := range in.toolRuns() {
		if p := in.probeOf(run); p != nil {
			in.use(p.run)
		}
	}
}

// probeOf is the newest probe of the box in which a tool ran: of the same
// method and maker, with the same let in, on the same boot of the same machine.
func (in *inquiry) probeOf(run *Run) *probe {
	res, err := run.Result(in.ev.Objects)
	if err != nil || res.Facts[schemas.FactBox] == "" || res.Facts[factBoot] == "" {
		return nil
	}
	var newest *probe
	for i := range in.probes {
		p := &in.probes[i]
		if !sameBox(p.res.Facts, res.Facts) || !slices.ContainsFunc(p.run.Claims, func(c attest.Claim) bool {
			return slices.Contains(in.policy.Signers["isolate"].Functionaries, c.Functionary())
		}) {
			continue
		}
		// One that failed and says that it ended later stays the last, wherever a log has it; see newest.
		if newest == nil || !newest.run.Finished.After(p.run.Finished) || in.sound(newest.run) && in.sound(p.run) {
			newest = p
		}
	}
	return newest
}

// Facts that tell boxes apart besides the method and what was let in: digests of
// the machine's boot id, and of the program that makes the box.
const (
	factBoot     = "boot"
	factBoxMaker = "boxMaker"
)

func sameBox(a, b map[string]string) bool {
	for _, name := range []string{schemas.FactBox, schemas.FactAdmitted, factBoot, factBoxMaker} {
		if a[name] != b[name] {
			return false
		}
	}
	return true
}

// ruleBoxed wants every tool to have run in a box that the policy knows, without
// network and with nothing let in but what it allows, and that box to have been
// probed on the same boot of the same machine. What the probe showed is read from
// its SCAI Statements, by those who may sign them; its own word is not enough.
func ruleBoxed(in *inquiry) []Reason {
	want := "in a box of " + strings.Join(in.policy.Boxed.Methods, " or ") + " without network"
	runs := in.toolRuns()
	if len(runs) == 0 {
		return in.noTools(want)
	}
	var reasons []Reason
	for _, run := range runs {
		reasons = append(reasons, in.judgeBox(run, want))
		if r := reasons[len(reasons)-1]; r.Verdict == schemas.Passed {
			reasons = append(reasons, in.judgeProbe(run))
		}
	}
	return reasons
}

func (in *inquiry) judgeBox(run *Run, want string) Reason {
	what := "box of " + run.name()
	rule := in.policy.Boxed
	res, err := run.Result(in.ev.Objects)
	if err != nil {
		return undecided(what, err.Error(), want).from(run.PAE())
	}
	method, network := res.Facts[schemas.FactBox], res.Facts[schemas.FactNetwork]
	var more []string
	for _, name := range strings.Split(res.Facts[schemas.FactAdmitted], ",") {
		if name = strings.TrimSpace(name); name != "" && !slices.Contains(rule.Admitted, name) {
			more = append(more, name)
		}
	}
	switch {
	case method == "":
		return undecided(what, "it does not say in which box it ran", want).from(run.PAE())
	case method == "none":
		return failed(what, "none: it ran outside of any box", want, run.PAE())
	case !slices.Contains(rule.Methods, method):
		return failed(what, method, want, run.PAE())
	case network == "":
		return undecided(what, method+", which does not say what became of the network", want).from(run.PAE())
	case network != schemas.NetworkDenied:
		return failed(what, fmt.Sprintf("%s with the network %s", method, network), want, run.PAE())
	case len(more) > 0:
		return failed(what, fmt.Sprintf("%s, with %s let in", method, strings.Join(more, ", ")), fmt.Sprintf("nothing let in but %q", rule.Admitted), run.PAE())
	}
	got := method + ", network denied"
	if admitted := res.Facts[schemas.FactAdmitted]; admitted != "" {
		got += ", let in: " + admitted
	}
	return passed(what, got, want, run.PAE())
}

func (in *inquiry) judgeProbe(run *Run) Reason {
	what := "probe of the box of " + run.name()
	rule := in.policy.Boxed
	want := "SCAI attributes " + strings.Join(rule.Attributes, ", ")
	p := in.probeOf(run)
	switch {
	case p == nil && len(in.probes) == 0:
		return undecided(what, "no isolate run", want).from(run.PAE())
	case p == nil:
		return undecided(what, "only isolate runs of another box, another machine or another boot", want).from(run.PAE())
	case !in.sound(p.run):
		return failed(what, p.run.name()+" is not signed as the policy wants, or did not pass: "+p.res.Failure, want, p.run.PAE())
	}
	shown, others := map[string]bool{}, []string{}
	byStatement := map[string][]attest.Claim{}
	for _, c := range p.claims {
		byStatement[c.PAE().String()] = append(byStatement[c.PAE().String()], c)
	}
	for _, pae := range sortedKeys(byStatement) {
		claims := byStatement[pae]
		if in.signed("isolate", claims).Verdict != schemas.Passed {
			others = append(others, claims[0].Functionary())
			continue
		}
		in.usedVSA = append(in.usedVSA, claims...)
		for _, name := range attributes(claims[0], p.res.Facts) {
			shown[name] = true
		}
	}
	var missing []string
	for _, name := range rule.Attributes {
		if !shown[name] {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return passed(what, fmt.Sprintf("%d attributes shown by %s", len(shown), p.run.name()), want, p.run.PAE())
	}
	got := strings.Join(missing, ", ") + " not shown by " + p.run.name()
	if len(others) > 0 {
		got += "; not counted: Statements by " + strings.Join(others, ", ")
	}
	return undecided(what, got, want).from(p.run.PAE())
}

// asserted reads what a SCAI Statement says, attribute by attribute.
func asserted(c attest.Claim) ([]schemas.PolicyAsserted, error) {
	var r scai.AttributeReport
	if err := protojson.Unmarshal(c.Predicate(), &r); err != nil {
		return nil, err
	}
	list := []schemas.PolicyAsserted{}
	for _, a := range r.GetAttributes() {
		of := func(name string) string { return a.GetConditions().GetFields()[name].GetStringValue() }
		list = append(list, schemas.PolicyAsserted{Attribute: a.GetAttribute(), Method: of("method"), Boot: of("boot"), Admitted: of("admitted")})
	}
	return list, nil
}

// attributes are the names that a SCAI Statement asserts of a box: one whose
// conditions give another method, boot or things let in is about another box.
// None of a Statement that cannot be read.
func attributes(c attest.Claim, box map[string]string) []string {
	all, err := asserted(c)
	if err != nil {
		return nil
	}
	var list []string
	for _, a := range all {
		if a.Method == box[schemas.FactBox] && a.Boot == box[factBoot] && a.Admitted == box[schemas.FactAdmitted] {
			list = append(list, a.Attribute)
		}
	}
	return list
}
