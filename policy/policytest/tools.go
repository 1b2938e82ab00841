package policytest

import (
	"slices"
	"testing"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	scai "github.com/in-toto/attestation/go/predicates/scai/v0"
	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// The files of a world whose tools are built for it.
var (
	Tree       = policy.NamedDigest{Name: "runtime-source/", Digest: godigest.FromString("a patched tree")}
	Script     = policy.NamedDigest{Name: "runtime-source/convert.py", Digest: godigest.FromString("a converter")}
	Products   = policy.NamedDigest{Name: "runtime/", Digest: godigest.FromString("what was built")}
	Quantizer  = policy.NamedDigest{Name: "runtime/bin/quantizer", Digest: godigest.FromString("a quantizer")}
	Calibrator = policy.NamedDigest{Name: "runtime/bin/calibrator", Digest: godigest.FromString("a calibrator")}
	Library    = policy.NamedDigest{Name: "runtime/bin/libtool.so", Digest: godigest.FromString("a library")}
	Vocabulary = policy.NamedDigest{Name: "model-vocabulary.gguf", Digest: godigest.FromString("a vocabulary")}
	Matrix     = policy.NamedDigest{Name: "model-imatrix.gguf", Digest: godigest.FromString("an importance matrix")}
	Patch      = godigest.FromString("a patch")
	Corpus     = godigest.FromString("a calibration text")
	Python     = godigest.FromString("an interpreter")
	Probes     = policy.NamedDigest{Name: "box/probes", Digest: godigest.FromString("what the probes found")}
	Boot       = godigest.FromString("a boot id").String()
)

// ToolCommit is the commit of the tools' source.
const ToolCommit = "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b"

// Tools makes a world's tools come from a build: every rule about them is
// required, and the chain passes each. The artifact and all that follows it stay.
func Tools(t testing.TB, w *World) {
	t.Helper()
	p := &w.Policy
	p.Boxed = &schemas.BoxedRule{Methods: []string{"bubblewrap"}, Admitted: []string{"gpu"}, Attributes: []string{schemas.NetworkIsDenied, schemas.CanaryUnreadable}}
	p.Built = &schemas.BuiltRule{Sources: []schemas.ToolSource{{Commit: ToolCommit, Patches: []godigest.Digest{Patch}}}, Environment: []string{Python.String()}}
	p.Calibrated = &schemas.CalibratedRule{Corpora: []schemas.Corpus{{Digest: Corpus, Licence: "cc0-1.0"}}}
	p.Parity = &schemas.ParityRule{Cases: 330}
	p.Placed = &schemas.PlacedRule{Devices: []string{"CPU"}, Uses: []string{"calibrate"}}
	p.Alone = &schemas.AloneRule{Uses: []string{"evaluate"}}
	p.Released = &schemas.ReleasedRule{Compute: "azure", State: "PowerState/deallocated"}
	for _, uses := range []string{"patch", "build", "isolate", "parity", "release"} {
		p.Signers[uses] = schemas.SignerRule{Functionaries: []string{Producer}, Threshold: 1}
	}
	class := p.Classes[Class]
	class.Side = []string{"calibrate", "build", "patch"}
	p.Classes[Class] = class
	for name, rules := range map[string][]string{policy.Accept: {"boxed", "built", "calibrated", "parity", "placed", "alone"}, policy.Redistribute: {"boxed", "built", "calibrated", "parity", "placed", "alone", "released"}} {
		d := p.Decisions[name]
		d.Requires = append(slices.Clone(d.Requires), rules...)
		p.Decisions[name] = d
	}
	producer := []string{Producer}
	out := func(files ...policy.NamedDigest) []policy.NamedDigest { return files }
	calibrated := Report("calibration", BF16)
	calibrated.Inputs = append(calibrated.Inputs, schemas.Input{Name: "corpus", Digest: Corpus}, schemas.Input{Name: "binary", Digest: Calibrator.Digest})
	placed := Report("placement", BF16)
	placed.Metrics = []schemas.Metric{{Name: "bytes/CPU", Unit: "bytes", Value: 32}}
	agreed := Report("token parity", Snapshot)
	agreed.Metrics = []schemas.Metric{{Name: "cases", Unit: "cases", Value: 330}, {Name: "mismatches", Unit: "comparisons"}}
	w.Add(t, "source-inspected",
		&Step{Name: "runtime-source", Uses: "patch", By: producer, Outputs: out(Tree, Script), Result: facts(), Change: Needs("patch/tokenizer.patch", Patch, "source/runtime", ToolCommit)},
		&Step{Name: "runtime", Uses: "build", By: producer, Inputs: out(In("source", Tree)), Outputs: out(Products, Quantizer, Calibrator, Library), Result: boxedFacts(), Change: Needs("tool/cc", godigest.FromString("a compiler"))},
		&Step{Name: "box", Uses: "isolate", By: producer, Inputs: out(In("runtime", Products)), Result: boxedFacts(), Change: evidence(Probes)},
		Attributes("scai", Probes.Digest, []string{Producer}, schemas.NetworkIsDenied, schemas.CanaryUnreadable, schemas.NoCapabilities),
		&Step{Name: "vocabulary", Uses: "convert", By: producer, Inputs: out(In("snapshot", Snapshot), In("converter", Tree)), Outputs: out(Vocabulary), Result: boxedFacts(), Change: Needs("tool/convert.py", Script.Digest, "tool/python3", Python)},
		&Step{Name: "agreed", Uses: "parity", By: producer, Inputs: out(In("snapshot", Snapshot), In("vocabulary", Vocabulary)), Result: facts("sides", "publisher, vocabulary"), Reports: reports(agreed)},
	)
	w.Add(t, "bf16", &Step{Name: "matrix", Uses: "calibrate", By: producer, Inputs: out(In("model", BF16), In("runtime", Products)), Outputs: out(Matrix), Result: boxedFacts("corpus-licence", "CC0-1.0"),
		Reports: reports(calibrated, placed), Change: Needs("tool/calibrator", Calibrator.Digest, "library/libtool.so", Library.Digest, "corpus/text.txt", Corpus)})
	bf16 := w.Step(t, "bf16")
	bf16.Inputs, bf16.Result, bf16.Change = append(bf16.Inputs, In("converter", Tree)), boxedFacts(), Needs("tool/convert.py", Script.Digest, "tool/python3", Python)
	q8 := w.Step(t, "q8")
	q8.Inputs, q8.Result, q8.Change = append(q8.Inputs, In("imatrix", Matrix), In("runtime", Products)), boxedFacts(), Needs("tool/quantizer", Quantizer.Digest, "library/libtool.so", Library.Digest)
	w.Step(t, "q8-evaluated").Result = facts(schemas.FactModelServers, "0", schemas.FactSampledPeakRSS, "4096", schemas.FactHighWaterRSS, "8192")
	w.Add(t, "q8-reloaded", &Step{Name: "given-back", Uses: "release", By: producer, Inputs: out(In("artifact", Artifact)), Result: facts("compute", "azure", "state", "PowerState/deallocated", "endpoint", "https://management.azure.com", "machine", godigest.FromString("a machine").String())})
	p.Completed = &schemas.CompletedRule{Record: true}
	w.Step(t, "completion").State = Recorded("completion", nil).State
}

func boxedFacts(more ...string) schemas.Result {
	return facts(append([]string{schemas.FactBox, "bubblewrap", schemas.FactNetwork, schemas.NetworkDenied, "boot", Boot}, more...)...)
}

// Needs adds dependencies to a run: names, each with its sha256 ([godigest.Digest]) or commit (string).
func Needs(pairs ...any) func(*provenance.Provenance, *attest.Statement) {
	return func(p *provenance.Provenance, _ *attest.Statement) {
		add := func(name string, set map[string]string) {
			p.BuildDefinition.ResolvedDependencies = append(p.BuildDefinition.ResolvedDependencies, &attest.ResourceDescriptor{Name: name, Digest: set})
		}
		add("tool/weighmaster", map[string]string{"sha256": godigest.FromString("this program").Encoded()})
		for i := 0; i < len(pairs); i += 2 {
			switch v := pairs[i+1].(type) {
			case godigest.Digest:
				add(pairs[i].(string), map[string]string{"sha256": v.Encoded()})
			case string:
				add(pairs[i].(string), map[string]string{"gitCommit": v})
			}
		}
	}
}

// evidence makes a run be about a further evidence object.
func evidence(object policy.NamedDigest) func(*provenance.Provenance, *attest.Statement) {
	return func(p *provenance.Provenance, s *attest.Statement) {
		p.RunDetails.Byproducts = append(p.RunDetails.Byproducts, Descriptor(object.Name, object.Digest))
		s.Subject = p.RunDetails.Byproducts
	}
}

// Attributes is a step that states what a probe of the world's box showed (SCAI), over the probe's findings.
func Attributes(name string, over godigest.Digest, by []string, list ...string) *Step {
	return &Step{Name: name, By: by, State: func(t testing.TB, _ *World, _ *Signed) *attest.Statement {
		r := &scai.AttributeReport{}
		conditions := toStruct(t, map[string]any{"method": "bubblewrap", "boot": Boot, "admitted": "", "shown": "EACCES"})
		for _, a := range list {
			r.Attributes = append(r.Attributes, &scai.AttributeAssertion{Attribute: a, Conditions: conditions})
		}
		return statement(t, []*attest.ResourceDescriptor{Descriptor("box/probes", over)}, attest.SCAIType, r)
	}}
}
