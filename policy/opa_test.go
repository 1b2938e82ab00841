package policy_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	vsa "github.com/in-toto/attestation/go/predicates/vsa/v1"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

const rego = "../fixtures/policies/rego/weighmaster.rego"

const regoTools = "../fixtures/policies/rego/tools.rego"

// opa is the real thing, by WEIGHMASTER_OPA (.ci/interop/install-opa).
func opa(t *testing.T, args ...string) []byte {
	t.Helper()
	if underRace {
		t.Skip("another program's answers are asked for in the interop suite, which is not instrumented")
	}
	bin := os.Getenv("WEIGHMASTER_OPA")
	if bin == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("WEIGHMASTER_OPA is not set; .ci/interop/install-opa prints it")
		}
		t.Skip("WEIGHMASTER_OPA is not set: opa does not run")
	}
	var stderr bytes.Buffer
	cmd := exec.Command(bin, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("opa %v: %v\n%s%s", args, err, out, stderr.Bytes())
	}
	return out
}

// tampers are worlds that our engine refuses, each for one thing; the first is none.
func tampers() []change {
	step := func(name string, do func(*policytest.Step)) func(*testing.T, *policytest.World) {
		return func(t *testing.T, w *policytest.World) { do(w.Step(t, name)) }
	}
	addStep := func(like, name string, do func(*policytest.Step)) func(*testing.T, *policytest.World) {
		return func(t *testing.T, w *policytest.World) {
			s := *w.Step(t, like)
			s.Name = name
			do(&s)
			w.Add(t, like, &s)
		}
	}
	badDerive := func(s *policytest.Step) {
		rep := policytest.Report("derive", policytest.Artifact)
		rep.Verdict, rep.Findings = schemas.Failed, []schemas.Finding{{Check: "values", Where: "output.weight", Got: "1", Want: "2"}}
		s.Reports = []*schemas.Report{rep}
	}
	return []change{
		{name: "nothing wrong", do: func(*testing.T, *policytest.World) {}},
		{name: "everything twice", do: func(t *testing.T, w *policytest.World) {
			for _, name := range []string{"bf16", "q8", "q8-derived", "q8-evaluated", "q8-reloaded"} {
				addStep(name, name+"-again", func(*policytest.Step) {})(t, w)
			}
		}},
		{name: "two signers wanted, two there", do: func(t *testing.T, w *policytest.World) {
			w.Policy.Signers["quantize"] = schemas.SignerRule{Functionaries: []string{policytest.Producer, policytest.Second}, Threshold: 2}
			w.Step(t, "q8").By = []string{policytest.Producer, policytest.Second}
		}},
		{name: "one key under two names", do: func(t *testing.T, w *policytest.World) {
			w.Policy.Signers["quantize"] = schemas.SignerRule{Functionaries: []string{policytest.Producer, policytest.Alias}, Threshold: 2}
			w.Step(t, "q8").By = []string{policytest.Producer, policytest.Alias}
		}},
		{name: "another revision", do: step("source", func(s *policytest.Step) {
			s.Pin = &schemas.Publisher{Repository: policytest.Repository, Revision: strings.Repeat("f", 40), Allow: []string{"*"}}
		})},
		{name: "a stranger's quantization", do: step("q8", func(s *policytest.Step) { s.By = []string{policytest.Stranger} })},
		{name: "no conversion", do: drop("bf16")},
		{name: "made of other bytes", do: step("q8", func(s *policytest.Step) { s.Inputs = []policy.NamedDigest{policytest.In("model", otherFile)} })},
		{name: "a failed run", do: step("q8-evaluated", func(s *policytest.Step) {
			s.Result = schemas.Result{Schema: schemas.ResultURI, Verdict: schemas.Failed, ExitStatus: 1, Failure: "no", Facts: map[string]string{}}
		})},
		{name: "no derivation", do: drop("q8-derived")},
		{name: "a bad report beside a good one", do: addStep("q8-derived", "q8-derived-again", badDerive)},
		{name: "a missed control", do: edit("q8-derived", 0, func(r *schemas.Report) {
			r.Controls.Red, r.Controls.Missed, r.Controls.Results[0].Red = 0, 1, false
		})},
		{name: "a report over other bytes", do: edit("q8-derived", 0, func(r *schemas.Report) { r.Inputs[0].Digest = otherFile.Digest })},
		{name: "a number beyond its bound", do: metric("q8-evaluated", 1, "kl_mean", func(m *schemas.Metric) { m.Value = 0.0031 })},
		{name: "a number exactly at its bound", do: metric("q8-evaluated", 1, "kl_mean", func(m *schemas.Metric) { m.Value = 0.003 })},
		{name: "a number in another unit", do: metric("q8-evaluated", 1, "kl_mean", func(m *schemas.Metric) { m.Unit = "bits" })},
		{name: "a number that was not measured", do: metric("q8-evaluated", 1, "nll_ratio", nil)},
		{name: "a lower bound", do: metric("q8-evaluated", 1, "kl_mean", func(m *schemas.Metric) { m.Identity = map[string]string{"domain": "real-ids", "bound": "lower"} })},
		{name: "a fixture that failed", do: metric("q8-evaluated", 0, "fixtures_passed", func(m *schemas.Metric) {
			if m.Identity["kind"] == "tool-call" {
				m.Value = 1
			}
		})},
		{name: "a context that was not filled", do: metric("q8-evaluated", 0, "fixtures_total", func(m *schemas.Metric) {
			if m.Identity["tokens"] == "512" {
				m.Identity = map[string]string{"kind": "retrieval", "tokens": "511"}
			}
		})},
		{name: "a tensor type that is not allowed", do: edit("q8-derived", 0, func(r *schemas.Report) {
			r.Metrics = append(r.Metrics, schemas.Metric{Name: "tensors/Q4_K", Unit: "tensors", Value: 1})
		})},
		{name: "another licence", do: step("source", func(s *policytest.Step) { s.Result.Facts["licence"] = "cc-by-nc-4.0" })},
		{name: "the licence file left behind", do: step("source", func(s *policytest.Step) { s.Listing.Files[0].Taken = false })},
		{name: "a base model of which nothing is known", do: step("source", func(s *policytest.Step) { s.Listing.BaseModels = []string{"origin/model"} })},
		{name: "no acceptance", do: drop("q8-summary")},
		{name: "a later refusal", do: func(t *testing.T, w *policytest.World) { w.Add(t, "", policytest.Summary("no", "FAILED", nil)) }},
		{name: "an acceptance by the producer", do: step("q8-summary", func(s *policytest.Step) { s.By = []string{policytest.Producer} })},
		{name: "no delivery", do: drop("q8-delivered")},
		{name: "a reload with the network open", do: step("q8-reloaded", func(s *policytest.Step) { s.Result.Facts["network"] = "not enforced" })},
		{name: "no completion", do: drop("completion")},
		{name: "a claim withdrawn that the acceptance rests on", do: func(t *testing.T, w *policytest.World) {
			w.Add(t, "", policytest.Withdrawal("w", "source-inspected", "wrong file", policytest.Gatekeeper))
		}},
		{name: "a withdrawal that does not count", do: func(t *testing.T, w *policytest.World) {
			w.Add(t, "", policytest.Withdrawal("w", "source-inspected", "wrong file", policytest.Stranger))
		}},
		{name: "superseded", do: func(t *testing.T, w *policytest.World) {
			addStep("q8", "q8-again", func(*policytest.Step) {})(t, w)
			w.Add(t, "", policytest.Supersession("w", "q8-again", "wrong tokenizer", policytest.Producer, otherFile.Digest))
		}},
		{name: "a decision that rests on one that rests on what was withdrawn", do: func(t *testing.T, w *policytest.World) {
			w.Add(t, "q8-summary", onDecision("second"))
			measuredAgain(t, w)
		}},
		{name: "numbers that refuse, taken back by who measured", do: func(t *testing.T, w *policytest.World) {
			w.Add(t, "baseline", diverging(t, w), policytest.Withdrawal("w", "q8-evaluated-badly", "I did not like it", policytest.Producer))
		}},
		{name: "a reload that failed later", do: addStep("q8-delivered", "broken", func(s *policytest.Step) {
			s.Uses, s.At, s.Outputs = "reload", policytest.Now.Add(time.Minute), nil
			s.Result = schemas.Result{Schema: schemas.ResultURI, Verdict: schemas.Failed, ExitStatus: 1, Failure: "no answer", Facts: map[string]string{}}
		})},
		{name: "an acceptance of a policy whose name only ends so", do: func(t *testing.T, w *policytest.World) {
			w.Step(t, "q8-summary").State = policytest.Summary("q8-summary", "PASSED", func(p *vsa.VerificationSummary) {
				p.Policy.Uri = "https://elsewhere.example/" + strings.TrimPrefix(p.GetPolicy().GetUri(), schemas.BaseURI)
			}).State
		}},
		{name: "a rule that Rego does not know", do: func(t *testing.T, w *policytest.World) {
			w.Policy.Scans = &schemas.ScanRule{Allowed: []string{"queued"}}
			requireMore(w, policy.Redistribute, "scans")
		}},
	}
}

// toolTampers are worlds whose tools were built for them, the first whole.
func toolTampers() []change {
	list := []change{{name: "tools", do: func(*testing.T, *policytest.World) {}}, {name: "keys of a tokenizer that were compared", do: func(t *testing.T, w *policytest.World) {
		left(t, w, elsewhere.String(), elsewhere.String())
	}}}
	for _, more := range [][]change{boxedChanges(), builtChanges(), calibratedChanges(), parityChanges(), tokenizerChanges(), placedAndAloneChanges(), releasedChanges(), completionChanges()[:8]} {
		list = append(list, more...)
	}
	for i := range list {
		do := list[i].do
		list[i].do = func(t *testing.T, w *policytest.World) {
			policytest.Tools(t, w)
			do(t, w)
		}
	}
	return list
}

// OPA, with the example policy in Rego and nothing but the document that we
// print, answers as our engine does.
func TestOPAAnswersTheSame(t *testing.T) {
	opa(t, "check", "--strict", rego, regoTools)
	dir := t.TempDir()
	type asked struct {
		name    string
		allowed bool
		reasons []policy.Reason
	}
	var list []asked
	var inputs []json.RawMessage
	for _, c := range append(tampers(), toolTampers()...) {
		w := newWorld(t)
		c.do(t, w)
		ev := w.Sign(t).Evidence
		for _, decision := range decisions {
			if decision != policy.Redistribute && c.name != "nothing wrong" {
				continue
			}
			doc, err := policy.Document(w.Policy, ev, question(w, decision))
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			d := decide(t, w, ev, decision)
			list = append(list, asked{c.name + ", " + decision, d.Verdict == schemas.Passed, d.Failures()})
			inputs = append(inputs, doc)
		}
	}
	body, err := json.Marshal(map[string]any{"inputs": inputs})
	if err != nil {
		t.Fatal(err)
	}
	input := filepath.Join(dir, "input.json")
	if err := os.WriteFile(input, body, 0o600); err != nil {
		t.Fatal(err)
	}
	out := opa(t, "eval", "--format", "raw", "--data", rego, "--data", regoTools, "--input", input,
		`[{"allow": a, "deny": d} | some doc in input.inputs; a := data.weighmaster.allow with input as doc; d := data.weighmaster.deny with input as doc]`)
	var answers []struct {
		Allow bool
		Deny  []string
	}
	if err := json.Unmarshal(out, &answers); err != nil || len(answers) != len(list) {
		t.Fatalf("opa gave %d answers to %d questions: %v\n%.2000s", len(answers), len(list), err, out)
	}
	allowed := 0
	for i, a := range answers {
		if a.Allow != list[i].allowed {
			t.Errorf("%s: our engine says %v %v, OPA says %v %q", list[i].name, list[i].allowed, list[i].reasons, a.Allow, a.Deny)
		}
		if a.Allow {
			allowed++
		}
	}
	if allowed < 6 || len(list)-allowed < 25 {
		t.Errorf("%d allowed and %d refused; the test looks at too little", allowed, len(list)-allowed)
	}
	t.Logf("OPA and our engine: %d allowed, %d refused", allowed, len(list)-allowed)
}

func TestTheRegoPolicysOwnTests(t *testing.T) {
	out := opa(t, "test", filepath.Dir(rego), "--v0-compatible=false", "--format", "pretty")
	t.Logf("%s", out)
}

// The document is the same whatever order the evidence comes in, and says of each claim what its verifier found.
func TestTheDocumentOfTheEvidence(t *testing.T) {
	w := newWorld(t)
	w.Add(t, "", policytest.Review("review", policytest.Second, schemas.Passed), policytest.Withdrawal("w", "review", "too hasty", policytest.Second))
	s := w.Sign(t)
	ev := s.Evidence
	ev.Witnesses = []policy.Cosignature{{Name: "w1", Time: policytest.Now}}
	doc, err := policy.Document(w.Policy, ev, question(w, policy.Redistribute))
	if err != nil {
		t.Fatal(err)
	}
	other := ev
	other.Claims = append(slices.Clone(ev.Claims), ev.Claims[0])
	slices.Reverse(other.Claims)
	again, err := policy.Document(w.Policy, other, question(w, policy.Redistribute))
	if err != nil || !bytes.Equal(doc, again) {
		t.Errorf("in another order the document is another (%v)", err)
	}
	if err := attest.CheckJSON(doc); err != nil {
		t.Error(err)
	}
	var read schemas.PolicyEvidence
	if err := schemas.DecodeJSON(schemas.EvidenceURI, doc, &read); err != nil {
		t.Fatal(err)
	}
	claim := read.Claims[0]
	if claim.Functionary != policytest.Producer || claim.PAE != s.Claims[0].PAE() || *claim.Index != 0 || !claim.Appended.Equal(policytest.Now) || claim.Withdrawn {
		t.Errorf("the first claim is %+v", claim)
	}
	if len(read.Claims) != len(ev.Claims) || len(read.Runs) != 11 || len(read.Summaries) != 1 || len(read.Completions) != 1 || len(read.Reviews) != 1 || len(read.Witnesses) != 1 || !read.Log.Whole {
		t.Errorf("%d claims, %d runs, %d summaries, %d completions, %d reviews, %d witnesses, whole %v", len(read.Claims), len(read.Runs), len(read.Summaries), len(read.Completions), len(read.Reviews), len(read.Witnesses), read.Log.Whole)
	}
	if !read.Withdrawals[0].Counts || !read.Claims[13].Withdrawn {
		t.Errorf("the withdrawn review: %+v, %+v", read.Withdrawals[0], read.Claims[13])
	}
	if r := read.Runs[0]; r.Listing == nil || r.Result == nil || len(r.Reports) != 1 || r.Publisher.Revision != policytest.Revision || len(r.Missing) != 0 {
		t.Errorf("the acquire run is %+v", r)
	}
	ev.Objects = nil
	doc, err = policy.Document(w.Policy, ev, question(w, policy.Redistribute))
	if err != nil || schemas.DecodeJSON(schemas.EvidenceURI, doc, &read) != nil || len(read.Runs[0].Missing) != 3 {
		t.Errorf("without objects: %v, missing %v", err, read.Runs[0].Missing)
	}
}
