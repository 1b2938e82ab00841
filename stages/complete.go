package stages

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// Complete states that the whole run is finished: every stage before it passed,
// every input it is given was accepted, delivered and reloaded, and rented compute
// was given back. It records what the run was made of, from the claims alone.
// Whatever is open is listed, all of it.
type Complete struct{}

// Uses implements [Stage].
func (Complete) Uses() string { return "complete" }

// Unrepeatable: completion is about the state of now.
func (Complete) Unrepeatable() {}

// TakesRemote implements [RemoteTaker]: what was delivered may lie on another machine.
func (Complete) TakesRemote() {}

// Run implements [Stage]. Inputs: any roles, each the output of a deliver stage.
func (Complete) Run(ctx context.Context, run *Run) (*Outcome, error) {
	if len(run.Inputs) == 0 {
		return nil, fmt.Errorf("stage %s: it has no inputs; name the delivered artifacts, or nothing is finished", run.Stage)
	}
	ev, err := gather(ctx, run)
	if err != nil {
		return nil, err
	}
	w := &finishing{run: run, ev: ev, claims: map[godigest.Digest]bool{}}
	w.done = schemas.Completion{Pipeline: run.Extra.PipelineDigest, Policy: run.Extra.PolicyDigest, Compute: noneRented}
	if err := w.stages(); err != nil {
		return nil, err
	}
	for _, role := range sortedKeys(run.Inputs) {
		if err := w.artifact(role); err != nil {
			return nil, err
		}
	}
	if err := w.release(); err != nil {
		return nil, err
	}
	out := &Outcome{Verdict: schemas.Passed, Facts: map[string]string{"delivered": fmt.Sprint(len(run.Inputs)), "compute": w.done.Compute}}
	if len(w.open) > 0 {
		out.Verdict, out.Failure = w.verdict, w.failure()
		out.Facts["open"] = fmt.Sprint(len(w.open))
		return out, nil
	}
	s, err := w.statement(ctx)
	if err != nil {
		return nil, err
	}
	out.Statements = []*attest.Statement{s}
	return out, nil
}

// noneRented is what a completion says where no compute was rented.
const noneRented = "none rented"

// finishing gathers what a completion says, and what is still open.
type finishing struct {
	run     *Run
	ev      policy.Evidence
	done    schemas.Completion
	subject []*attest.ResourceDescriptor
	claims  map[godigest.Digest]bool // bundles
	open    []string
	verdict schemas.Verdict
}

func (w *finishing) add(verdict schemas.Verdict, format string, args ...any) {
	w.open = append(w.open, fmt.Sprintf(format, args...))
	if w.verdict != schemas.Failed {
		w.verdict = verdict
	}
}

func (w *finishing) failure() string {
	if len(w.open) == 1 {
		return w.open[0]
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d things are open:", len(w.open))
	for i, what := range w.open {
		fmt.Fprintf(&b, " (%d) %s;", i+1, what)
	}
	return strings.TrimSuffix(b.String(), ";")
}

// artifact holds one delivered file against the policy.
func (w *finishing) artifact(role string) error {
	a, err := w.run.Single(role)
	if err != nil {
		return err
	}
	class, err := policy.ClassOf(w.run.Extra.Policy, w.run.Claims, a.Digest)
	if err != nil {
		w.add(schemas.Undecided, "%s: not accepted: %v", a.Name, err)
		return nil
	}
	decision, err := finished(w.run, w.ev, class, a.Digest)
	if err != nil {
		return err
	}
	for _, c := range decision.Claims {
		w.claims[c] = true
	}
	for _, r := range decision.Failures() {
		w.add(r.Verdict, "%s: %s", a.Name, r)
	}
	size, known := deliveredSize(w.ev, a)
	if !known {
		w.add(schemas.Undecided, "%s: the delivery does not say its size", a.Name)
	}
	digests := sha256Set(a.Digest)
	if len(a.Files) == 1 && a.Files[0].Sums.SHA256 == a.Digest {
		digests = fileDigests(a.Files[0])
	}
	w.subject = append(w.subject, &attest.ResourceDescriptor{Name: a.Name, Digest: digests})
	w.done.Delivered = append(w.done.Delivered, schemas.DeliveredFile{Name: a.Name, Digest: a.Digest, Size: size})
	return nil
}

// stages wants every stage that the pipeline declares before this one to have a
// passed run, the newest of its name.
func (w *finishing) stages() error {
	runs, _ := policy.Runs(w.run.Claims)
	withdrawn := withdrawnClaims(w.run.Claims)
	for _, decl := range w.run.Extra.Stages {
		if decl.Name == w.run.Stage {
			return nil
		}
		what, found := "it has no run", false
		for _, run := range runs {
			if run.External.Stage != decl.Name || run.Uses != decl.Uses {
				continue
			}
			res, err := run.Result(w.ev.Objects)
			reason, gone := withdrawn[run.PAE()]
			switch {
			case gone:
				what, found = "its newest run was withdrawn: "+reason, false
			case err != nil:
				what, found = err.Error(), false
			case res.Verdict != schemas.Passed || res.ExitStatus != 0:
				what, found = fmt.Sprintf("its newest run is %s: %s", res.Verdict, res.Failure), false
			default:
				found = true
			}
		}
		if !found {
			w.add(schemas.Undecided, "stage %s (%s): %s", decl.Name, decl.Uses, what)
		}
	}
	return nil
}

// release takes the newest release that counts. Nothing was rented only where
// the pipeline has no such stage, the policy demands none, and nobody claims one.
func (w *finishing) release() error {
	p := w.run.Extra.Policy
	run, err := policy.Release(p, w.ev)
	if err != nil {
		return err
	}
	declared := slices.ContainsFunc(w.run.Extra.Stages, func(s schemas.StageDecl) bool { return s.Uses == "release" })
	switch {
	case run == nil && (declared || p.Released != nil):
		w.add(schemas.Undecided, "rented compute: no release claim by those who may sign one (signers.release)")
	case run != nil:
		res, err := run.Result(w.ev.Objects)
		if err != nil || res.Verdict != schemas.Passed || res.ExitStatus != 0 {
			w.add(schemas.Failed, "rented compute: the newest release did not pass: %s", res.Failure)
			return nil
		}
		w.done.Compute = run.PAE().String()
		for _, c := range run.Claims {
			w.claims[c.Bundle()] = true
		}
	}
	return nil
}

// statement says what is finished, and what it was made of.
func (w *finishing) statement(ctx context.Context) (*attest.Statement, error) {
	for _, c := range w.ev.Claims {
		if w.claims[c.Bundle()] && !slices.Contains(w.done.Finished, c.PAE()) {
			w.done.Finished = append(w.done.Finished, c.PAE())
		}
	}
	record, err := policy.Record(w.run.Extra.Policy, w.ev, w.run.Extra.PolicyDigest, w.done.Finished, w.done.Delivered)
	if err != nil {
		return nil, err
	}
	for i := range record.Outputs {
		for _, a := range w.run.Inputs {
			if a.Digest == record.Outputs[i].Digest {
				record.Outputs[i].Metadata = tokenMetadata(a)
			}
		}
	}
	w.done.Record = &record
	sort.Slice(w.subject, func(i, j int) bool { return w.subject[i].Name < w.subject[j].Name })
	if w.done.Checkpoint, err = w.run.Extra.Checkpoint(ctx); err != nil {
		return nil, err
	}
	body, err := toStruct(w.done)
	if err != nil {
		return nil, err
	}
	return attest.NewStatement(w.subject, attest.CompletionType, body)
}

// toolRules are the rules about tools and machines that a completion asks again, where the policy has them.
var toolRules = []string{"boxed", "built", "calibrated", "parity", "placed", "alone", "released"}

// finished asks whether an artifact was accepted, delivered and reloaded, with
// the isolation that redistribution demands, and with all that the policy demands of tools.
func finished(run *Run, ev policy.Evidence, class string, artifact godigest.Digest) (policy.Decision, error) {
	p := run.Extra.Policy
	rule := p.Decisions[policy.Redistribute]
	rule.Requires = []string{"accepted", "delivered", "reloaded"}
	for _, name := range toolRules {
		for _, d := range p.Decisions {
			if slices.Contains(d.Requires, name) && !slices.Contains(rule.Requires, name) {
				rule.Requires = append(rule.Requires, name)
			}
		}
	}
	if rule.Threshold == 0 {
		rule.SignerRule = p.Decisions[policy.Accept].SignerRule
	}
	decisions := map[string]schemas.DecisionRule{policy.Redistribute: rule, policy.Accept: p.Decisions[policy.Accept]}
	return policy.Decide(policy.Only(p, decisions), ev, policy.Question{Decision: policy.Redistribute, Class: class, Artifact: artifact, Policy: run.Extra.PolicyDigest, At: run.Now()})
}

// decodeWith reads a stage's parameters, which are already valid against their schema.
func decodeWith(run *Run, v any) error {
	if err := json.Unmarshal(run.With, v); err != nil {
		return fmt.Errorf("stage %s: parameters: %w", run.Stage, err)
	}
	return nil
}
