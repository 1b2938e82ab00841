package policy_test

import (
	"testing"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

// change is one thing that differs from the world that passes.
type change struct {
	name    string
	do      func(t *testing.T, w *policytest.World)
	verdict schemas.Verdict
	wants   []want
}

// refusals holds a decision against worlds that each differ in one thing.
func refusals(t *testing.T, decision string, list []change) {
	for _, c := range list {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.do(t, w)
			check(t, decide(t, w, w.Sign(t).Evidence, decision), c.verdict, c.wants...)
		})
	}
}

func drop(names ...string) func(*testing.T, *policytest.World) {
	return func(t *testing.T, w *policytest.World) { w.Drop(t, names...) }
}

var otherFile = policy.NamedDigest{Name: "other.gguf", Digest: godigest.FromString("other bytes")}

func TestWhatIsMissingIsNamed(t *testing.T) {
	undecided := schemas.Undecided
	refusals(t, policy.Accept, []change{
		{"no acquire claim", drop("source"), undecided, []want{
			{"source", undecided, "does not reach an acquire claim"},
			{"chain", undecided, "input snapshot of bf16 (convert): " + policytest.Snapshot.Digest.String() + " was made by stage type acquire: undecided: got no claim by a trusted functionary"},
			{"licence", undecided, "no acquire claim"},
		}},
		{"no convert claim", drop("bf16"), undecided, []want{{"chain", undecided, "input model of q8 (quantize)"}}},
		{"no quantize claim", drop("q8"), undecided, []want{{"chain", undecided, "a claim of stage type quantize"}}},
		{"no inspection", drop("source-inspected"), undecided, []want{{"checks", undecided, "inspect of the source: undecided: got no claim"}}},
		{"no baseline", drop("baseline"), undecided, []want{
			{"checks", undecided, "baseline of the source: undecided: got no claim"},
			{"checks", undecided, "evaluate of the artifact against baseline: undecided: got no claim"},
		}},
		{"no derivation", drop("q8-derived"), undecided, []want{
			{"checks", undecided, "derive of the artifact against source: undecided: got no claim"},
			{"tensor-types", undecided, "nothing was looked at"},
			{"gates", undecided, "gate tensors-exact"},
		}},
		{"no evaluation", drop("q8-evaluated"), undecided, []want{
			{"checks", undecided, "evaluate of the artifact"},
			{"coverage", undecided, "fixtures arithmetic/zh: undecided: got not measured"},
			{"gates", undecided, "gate kl-mean"},
		}},
		{"no claims at all", func(t *testing.T, w *policytest.World) { w.Steps = nil }, undecided, []want{
			{"signers", undecided, "nothing was looked at"}, {"results", undecided, "nothing was looked at"},
			{"controls", undecided, "nothing was looked at"}, {"chain", undecided, "no claim by a trusted functionary"},
		}},
	})
	refusals(t, policy.Redistribute, []change{
		{"no summary", drop("q8-summary"), undecided, []want{{"accepted", undecided, "no summary by gatekeeper"}}},
		{"no delivery", drop("q8-delivered"), undecided, []want{{"delivered", undecided, "a claim of stage type deliver"}}},
		{"no reload", drop("q8-reloaded"), undecided, []want{{"reloaded", undecided, "a claim of stage type reload"}}},
		{"no completion", drop("completion"), undecided, []want{{"completed", undecided, "finished under policy"}}},
	})
}

func TestTheChainIsJoinedByDigests(t *testing.T) {
	failed := schemas.Failed
	q8 := policy.NamedDigest{Name: "first-Q8_0.gguf", Digest: godigest.FromString("an earlier Q8_0")}
	refusals(t, policy.Accept, []change{
		{"another revision of the publisher", func(t *testing.T, w *policytest.World) {
			w.Step(t, "source").Pin.Revision = "0b0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"
		}, failed, []want{{"source", failed, "got example/model@0b0a"}}},
		{"another repository", func(t *testing.T, w *policytest.World) { w.Step(t, "source").Pin.Repository = "example/other" },
			failed, []want{{"source", failed, "got example/other@0a0a"}}},
		{"an acquire claim without a pin", func(t *testing.T, w *policytest.World) { w.Step(t, "source").Pin = nil },
			failed, []want{{"source", failed, "the acquire claim names none"}}},
		{"quantized from a Q8_0 instead of the BF16", func(t *testing.T, w *policytest.World) {
			w.Add(t, "bf16", &policytest.Step{Name: "first-q8", Uses: "quantize", By: []string{policytest.Producer},
				Inputs: []policy.NamedDigest{policytest.In("model", policytest.BF16)}, Outputs: []policy.NamedDigest{q8}, Result: w.Step(t, "bf16").Result})
			w.Step(t, "q8").Inputs = []policy.NamedDigest{policytest.In("model", q8)}
		}, failed, []want{{"chain", failed, "got made by first-q8 (quantize), want convert"}}},
		{"quantized from something nobody made", func(t *testing.T, w *policytest.World) {
			w.Step(t, "q8").Inputs = []policy.NamedDigest{policytest.In("model", otherFile)}
		}, schemas.Undecided, []want{{"chain", schemas.Undecided, "input model of q8 (quantize): " + otherFile.Digest.String()}}},
		{"a further input that nobody made", func(t *testing.T, w *policytest.World) {
			s := w.Step(t, "q8")
			s.Inputs = append(s.Inputs, policytest.In("imatrix", otherFile))
		}, schemas.Undecided, []want{{"chain", schemas.Undecided, "input imatrix of q8 (quantize)"}}},
		{"no input at all", func(t *testing.T, w *policytest.World) { w.Step(t, "q8").Inputs = nil },
			schemas.Undecided, []want{{"chain", schemas.Undecided, "inputs of q8 (quantize): undecided: got none"}}},
		{"made by another stage type", func(t *testing.T, w *policytest.World) { w.Step(t, "q8").Uses = "convert" },
			failed, []want{{"chain", failed, "got made by q8 (convert), want quantize"}}},
		{"an edge over artifacts without a sha256", func(t *testing.T, w *policytest.World) {
			const some = "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e"
			w.Step(t, "bf16").Change = func(_ *provenance.Provenance, s *attest.Statement) {
				s.Subject = []*attest.ResourceDescriptor{{Name: "one", Digest: map[string]string{"sha512": some}}}
			}
			w.Step(t, "q8").Change = func(p *provenance.Provenance, _ *attest.Statement) {
				p.BuildDefinition.ResolvedDependencies[0].Digest = map[string]string{"sha512": "ee" + some[2:]}
			}
		}, schemas.Undecided, []want{{"chain", schemas.Undecided, "input model of q8 (quantize)"}}},
	})
}

func TestAnotherModelsImportanceMatrixIsNoSideInput(t *testing.T) {
	matrix := policy.NamedDigest{Name: "imatrix.gguf", Digest: godigest.FromString("importance")}
	for name, of := range map[string]policy.NamedDigest{"of this model": policytest.BF16, "of another": otherFile} {
		w := newWorld(t)
		class := w.Policy.Classes[policytest.Class]
		class.Side = []string{"calibrate"}
		w.Policy.Classes[policytest.Class] = class
		w.Add(t, "bf16", &policytest.Step{Name: "matrix", Uses: "calibrate", By: []string{policytest.Producer},
			Inputs: []policy.NamedDigest{policytest.In("model", of)}, Outputs: []policy.NamedDigest{matrix}, Result: w.Step(t, "bf16").Result})
		s := w.Step(t, "q8")
		s.Inputs = append(s.Inputs, policytest.In("imatrix", matrix))
		d := decide(t, w, w.Sign(t).Evidence, policy.Accept)
		t.Log(name)
		if of == otherFile {
			check(t, d, schemas.Failed, want{"chain", schemas.Failed, "input model of matrix (calibrate): failed: got " + otherFile.Digest.String()})
		} else {
			check(t, d, schemas.Passed)
		}
	}
}
