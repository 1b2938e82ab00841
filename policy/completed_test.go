package policy_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

// recorded alters the completion before it is signed.
func recorded(change func(*schemas.Completion)) func(*testing.T, *policytest.World) {
	return func(t *testing.T, w *policytest.World) {
		w.Step(t, "completion").State = policytest.Recorded("completion", change).State
	}
}

func TestACompletionIsHeldToItsClaims(t *testing.T) {
	toolRefusals(t, policy.Redistribute, completionChanges())
}

func completionChanges() []change {
	failed, undecided := schemas.Failed, schemas.Undecided
	record := func(part string, change func(*schemas.CompletionRecord)) change {
		return makeChange("record: "+part, recorded(func(c *schemas.Completion) { change(c.Record) }), failed, "its record's "+part+" is not what the claims")
	}
	return []change{
		makeChange("no record", recorded(func(c *schemas.Completion) { c.Record = nil }), failed, "it holds no record"),
		makeChange("nothing rented", recorded(func(c *schemas.Completion) { c.Compute = "none rented" }), failed, "it says that no compute was rented"),
		makeChange("a release that is not here", recorded(func(c *schemas.Completion) { c.Compute = elsewhere.String() }), undecided, "it names the release "+elsewhere.String()),
		makeChange("another run as its release", recorded(func(c *schemas.Completion) { c.Compute = c.Finished[0].String() }), failed, "it names source (acquire) as the release"),
		makeChange("its release not listed", recorded(func(c *schemas.Completion) {
			c.Finished = slices.DeleteFunc(c.Finished, func(d godigest.Digest) bool { return d.String() == c.Compute })
		}), failed, "it does not list its own release"),
		makeChange("the release failed", onStep("given-back", didNotPass), failed, "which is not signed as the policy wants, or did not pass"),
		makeChange("another artifact delivered", recorded(func(c *schemas.Completion) { c.Delivered[0].Digest = otherFile.Digest }), failed, "the artifact is not among what it says was delivered"),
		record("source", func(r *schemas.CompletionRecord) { r.Source.Files = r.Source.Files[1:] }),
		record("source", func(r *schemas.CompletionRecord) { r.Source.Licence = "mit" }),
		record("tools", func(r *schemas.CompletionRecord) { r.Tools = r.Tools[1:] }),
		record("tools", func(r *schemas.CompletionRecord) { r.Tools[0].Patches[0].Digest = elsewhere }),
		record("boxes", func(r *schemas.CompletionRecord) {
			r.Boxes[0].Attributes = append(r.Boxes[0].Attributes, schemas.HomesHidden)
		}),
		record("locks", func(r *schemas.CompletionRecord) {
			r.Locks = append(r.Locks, schemas.RecordLock{Claim: elsewhere, Stage: "bf16", Name: "tool/python-packages", Digest: elsewhere})
		}),
		record("corpora", func(r *schemas.CompletionRecord) { r.Corpora[0].Licence = "mit" }),
		record("outputs", func(r *schemas.CompletionRecord) { r.Outputs[0].TensorTypes["Q8_0"] = 8 }),
		record("outputs", func(r *schemas.CompletionRecord) { r.Outputs[0].Steps = r.Outputs[0].Steps[1:] }),
		record("validation", func(r *schemas.CompletionRecord) { r.Validation = r.Validation[1:] }),
		record("validation", func(r *schemas.CompletionRecord) { r.Validation[len(r.Validation)-1].Reports[0].Kernel = "another" }),
		record("notTested", func(r *schemas.CompletionRecord) { r.NotTested = r.NotTested[1:] }),
	}
}

func makeChange(name string, do func(*testing.T, *policytest.World), verdict schemas.Verdict, words string) change {
	return change{name, do, verdict, []want{{"completed", verdict, words}}}
}

// What a record says, it says of the claims; what nobody measured it lists.
func TestTheRecordOfARun(t *testing.T) {
	w := newWorld(t)
	policytest.Tools(t, w)
	s := w.Sign(t)
	var done schemas.Completion
	if err := schemas.DecodeJSON(schemas.CompletionURI, s.Claim(t, "completion").Predicate(), &done); err != nil {
		t.Fatal(err)
	}
	r := done.Record
	if r.Source.Repository != policytest.Repository || r.Source.Revision != policytest.Revision || r.Source.Licence != "cc0-1.0" || len(r.Source.Files) != 3 {
		t.Errorf("source: %+v", r.Source)
	}
	if len(r.Tools) != 2 || r.Tools[0].Commit != policytest.ToolCommit || r.Tools[0].Patches[0].Digest != policytest.Patch || len(r.Tools[1].Products) != 4 {
		t.Errorf("tools: %+v", r.Tools)
	}
	if len(r.Corpora) != 1 || r.Corpora[0].Licence != "cc0-1.0" || len(r.Boxes) != 1 || len(r.Boxes[0].Attributes) != 3 {
		t.Errorf("corpora %+v, boxes %+v", r.Corpora, r.Boxes)
	}
	out := r.Outputs[0]
	var steps []string
	for _, step := range out.Steps {
		steps = append(steps, step.Stage)
		if !slices.ContainsFunc(s.Claims, func(c attest.Claim) bool { return c.PAE() == step.Claim }) {
			t.Errorf("step %s names a claim that is not there", step.Stage)
		}
	}
	slices.Sort(steps)
	if got := strings.Join(steps, " "); got != "bf16 matrix q8 runtime runtime-source source" || out.Class != policytest.Class || out.TensorTypes["Q8_0"] != 7 {
		t.Errorf("steps %q, class %s, types %v", got, out.Class, out.TensorTypes)
	}
	var evaluated *schemas.RecordValidation
	for i, v := range r.Validation {
		if v.Stage == "q8-evaluated" {
			evaluated = &r.Validation[i]
		}
	}
	if evaluated == nil || !slices.Equal(evaluated.Contexts, []int{128, 256, 512}) || len(evaluated.Fixtures) != 11 || evaluated.Fixtures[0].Passed != 2 {
		t.Fatalf("validation: %+v", evaluated)
	}
	if m := evaluated.Memory; len(m) != 2 || m[0].Scope != "largest sample" || m[0].Bytes != 4096 || m[1].Scope != "high-water mark of one process" {
		t.Errorf("memory: %+v", m)
	}
	i := slices.IndexFunc(evaluated.Reports, func(r schemas.RecordReport) bool { return r.Kernel == "divergence" })
	if m := evaluated.Reports[i].Metrics[0]; m.Unit != "nats" || m.Identity["domain"] != "real-ids" {
		t.Errorf("a metric has lost its unit or domain: %+v", m)
	}
	not := strings.Join(r.NotTested, "\n")
	for _, words := range []string{"contexts of more than 512 tokens", "the hardware: no run recorded any", "generation speed", "backends other than weighmaster", "beyond the "} {
		if !strings.Contains(not, words) {
			t.Errorf("not tested: no %q in\n%s", words, not)
		}
	}
	if strings.Contains(not, "memory") || strings.Contains(not, "parity") {
		t.Errorf("what was measured is listed as not tested:\n%s", not)
	}
	body, err := json.Marshal(done)
	if err != nil || len(body) > 64<<10 {
		t.Errorf("a completion of %d bytes: %v", len(body), err)
	}
}
