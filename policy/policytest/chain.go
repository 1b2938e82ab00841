package policytest

import (
	"encoding/json"
	"strconv"
	"testing"

	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// Class is the policy's class of the artifact.
const Class = "8-bit"

// ArtifactBytes are the artifact's content.
const ArtifactBytes = "eight bits a weight"

// The files of every world.
var (
	Snapshot = policy.NamedDigest{Name: "snapshot/", Digest: godigest.FromString("the publisher's files")}
	BF16     = policy.NamedDigest{Name: "model-BF16.gguf", Digest: godigest.FromString("sixteen bits a weight")}
	Artifact = policy.NamedDigest{Name: "model-Q8_0.gguf", Digest: godigest.FromString(ArtifactBytes)}
	Licence  = policy.NamedDigest{Name: "snapshot/LICENSE", Digest: godigest.FromString("do what you like")}
	Weights  = policy.NamedDigest{Name: "snapshot/model.safetensors", Digest: godigest.FromString("weights")}
	Baseline = policy.NamedDigest{Name: "baseline/", Digest: godigest.FromString("what the source answered")}
)

// In gives a file the name of an input role.
func In(role string, file policy.NamedDigest) policy.NamedDigest {
	return policy.NamedDigest{Name: role, Digest: file.Digest}
}

// Chain is the whole way from the publisher to the finished release.
func Chain() []*Step {
	producer, gatekeeper := []string{Producer}, []string{Gatekeeper}
	out := func(files ...policy.NamedDigest) []policy.NamedDigest { return files }
	evaluated := Report("evaluate", Artifact)
	evaluated.Metrics = fixtureMetrics()
	derived := Report("derive", Artifact)
	derived.Metrics = []schemas.Metric{
		{Name: "tensors_differing", Unit: "tensors"},
		{Name: "tensors/F32", Unit: "tensors", Value: 5}, {Name: "tensors/Q8_0", Unit: "tensors", Value: 7},
	}
	diverged := Report("divergence", Artifact)
	ids := map[string]string{"domain": "real-ids"}
	diverged.Metrics = []schemas.Metric{
		{Name: "kl_mean", Unit: "nats", Value: 0.001, Identity: ids}, {Name: "top1_agreement", Unit: "fraction", Value: 0.99, Identity: ids},
		{Name: "nll_ratio", Unit: "fraction", Value: 0.004, Identity: ids},
	}
	return []*Step{
		{Name: "source", Uses: "acquire", By: producer, Outputs: out(Snapshot, Licence, Weights), Listing: Listing(), Result: facts("licence", "cc0-1.0"), Reports: reports(Report("acquisition", Snapshot)),
			Pin: &schemas.Publisher{Repository: Repository, Revision: Revision, Allow: []string{"*"}}},
		{Name: "source-inspected", Uses: "inspect", By: producer, Inputs: out(In("snapshot", Snapshot)), Result: facts(), Reports: reports(Report("safetensors structure", Snapshot))},
		{Name: "bf16", Uses: "convert", By: producer, Inputs: out(In("snapshot", Snapshot)), Outputs: out(BF16), Result: facts()},
		{Name: "q8", Uses: "quantize", By: producer, Inputs: out(In("model", BF16)), Outputs: out(Artifact), Result: facts()},
		{Name: "q8-derived", Uses: "derive", By: producer, Inputs: out(In("source", Snapshot), In("product", Artifact)), Result: facts(), Reports: reports(derived)},
		{Name: "baseline", Uses: "baseline", By: producer, Inputs: out(In("snapshot", Snapshot)), Outputs: out(Baseline), Result: facts(), Reports: reports(Report("evaluate", Snapshot))},
		{Name: "q8-evaluated", Uses: "evaluate", By: producer, Inputs: out(In("model", Artifact), In("baseline", Baseline)), Result: facts(), Reports: reports(evaluated, diverged)},
		{Name: "q8-accepted", Uses: "accept", By: gatekeeper, Inputs: out(In("artifact", Artifact)), Result: facts(), With: map[string]any{"class": Class}},
		Summary("q8-summary", "PASSED", nil),
		{Name: "q8-delivered", Uses: "deliver", By: producer, Inputs: out(In("artifact", Artifact)), Outputs: out(Artifact), Result: facts()},
		{Name: "q8-reloaded", Uses: "reload", By: producer, Inputs: out(In("artifact", Artifact)), Result: facts("network", "denied", "enforcement", "namespace"), Reports: reports(Report("reload", Artifact))},
		{Name: "finished", Uses: "complete", By: gatekeeper, Inputs: out(In("q8", Artifact)), Result: facts()},
		Completion("completion", "", Gatekeeper),
	}
}

// Listing is what the publisher declares of the revision.
func Listing() *schemas.Listing {
	return &schemas.Listing{
		Schema: schemas.ListingURI, URI: "https://hub.example/" + Repository, Revision: Revision, Licence: "cc0-1.0",
		Files: []schemas.ListedFile{
			{Path: "LICENSE", Size: 16, SHA256: Licence.Digest, Scan: "safe", Taken: true},
			{Path: "images/card.png", Size: 9, GitBlob: Revision, Scan: "queued"},
			{Path: "model.safetensors", Size: 7, SHA256: Weights.Digest, Scan: "safe", Taken: true},
		},
	}
}

func reports(list ...*schemas.Report) []*schemas.Report { return list }

func facts(pairs ...string) schemas.Result {
	r := schemas.Result{Schema: schemas.ResultURI, Verdict: schemas.Passed, Facts: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		r.Facts[pairs[i]] = pairs[i+1]
	}
	return r
}

// Report is a passed report of a kernel over one file, with one control planted.
func Report(kernel string, over policy.NamedDigest) *schemas.Report {
	return &schemas.Report{
		Schema: schemas.ReportURI, Kernel: kernel, Version: "1.0.0", Spec: "a specification", Verdict: schemas.Passed,
		Inputs:  []schemas.Input{{Name: over.Name, Digest: over.Digest, Size: 1}},
		Metrics: []schemas.Metric{}, Findings: []schemas.Finding{},
		Controls: schemas.Controls{Planted: 1, Red: 1, Results: []schemas.ControlResult{{Name: "a flipped bit", Fault: "altered value", Red: true, Detail: "reported"}}},
	}
}

// fixtureMetrics covers every kind that the example policy asks for, two fixtures each.
func fixtureMetrics() []schemas.Metric {
	var list []schemas.Metric
	add := func(identity map[string]string) {
		for _, name := range []string{"fixtures_total", "fixtures_passed"} {
			list = append(list, schemas.Metric{Name: name, Unit: "fixtures", Value: 2, Identity: identity})
		}
	}
	for _, kind := range []string{"arithmetic", "reading"} {
		add(map[string]string{"kind": kind, "language": "en"})
		add(map[string]string{"kind": kind, "language": "zh"})
	}
	for _, kind := range []string{"code-reasoning", "python-function", "tool-call", "thinking"} {
		add(map[string]string{"kind": kind})
	}
	for _, n := range []int{128, 256, 512} {
		add(map[string]string{"kind": "retrieval", "tokens": strconv.Itoa(n)})
	}
	return list
}

func statement(t testing.TB, subjects []*attest.ResourceDescriptor, predicateType string, predicate proto.Message) *attest.Statement {
	t.Helper()
	s, err := attest.NewStatement(subjects, predicateType, predicate)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func toStruct(t testing.TB, v any) *structpb.Struct {
	t.Helper()
	body, err := json.Marshal(v)
	s := &structpb.Struct{}
	if err == nil {
		err = protojson.Unmarshal(body, s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}
