package schemas_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/schemas"
)

var (
	sum    = godigest.Digest("sha256:" + strings.Repeat("ab", 32))
	commit = strings.Repeat("0a", 20)
	moment = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
)

const pemKey = "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----\n"

// document is one kind of document with every field of its Go type set.
type document struct {
	uri  string
	full any // pointer to the Go type
}

func documents() []document {
	signer := schemas.SignerRule{Functionaries: []string{"producer"}, Threshold: 1}
	file := []schemas.RecordFile{{Name: "n", Digest: sum}}
	log := schemas.LogKey{Origin: "example.org/log", Key: "example.org/log+0a1b2c3d+AdJz"}
	return []document{
		{schemas.ReportURI, &schemas.Report{
			Schema: schemas.ReportURI, Kernel: "derive", Version: "1.0.0", Spec: "https://example.org/spec", Verdict: schemas.Failed, FindingsOmitted: 1,
			Inputs:   []schemas.Input{{Name: "model", Digest: sum, Size: 1}},
			Metrics:  []schemas.Metric{{Name: "kl_mean", Unit: "nats", Value: 0.25, Identity: map[string]string{"domain": "real-ids"}}},
			Findings: []schemas.Finding{{Check: "c", Where: "w", Got: "g", Want: "x", Hint: "h"}},
			Controls: schemas.Controls{Planted: 2, Red: 1, Missed: 1, Results: []schemas.ControlResult{{Name: "n", Fault: "f", Red: true, Detail: "d"}}},
		}},
		{schemas.ResultURI, &schemas.Result{Schema: schemas.ResultURI, Stage: "q8", Uses: "quantize", Verdict: schemas.Failed, ExitStatus: 1, Failure: "why", Facts: map[string]string{"licence": "mit"}}},
		{schemas.PipelineURI, &schemas.Pipeline{
			Schema: schemas.PipelineURI, Publisher: schemas.Publisher{Repository: "o/n", Revision: commit, Allow: []string{"*.json"}},
			Stages: []schemas.StageDecl{{Name: "a", Uses: "acquire", Inputs: map[string]string{"model": "b"}, With: json.RawMessage(`{"from":"hub"}`), Signer: "producer"}},
		}},
		{schemas.PolicyURI, &schemas.Policy{
			Schema: schemas.PolicyURI, Name: "p", Source: schemas.PolicySource{Repository: "o/n", Revision: commit}, Licences: []string{"mit"},
			Scans: &schemas.ScanRule{Allowed: []string{"safe"}}, Notices: &schemas.NoticeRule{Files: []string{"LICENSE"}, Upstreams: map[string]string{"o/base": "mit"}},
			Reviewers: &signer, Fresh: map[string]schemas.Age{"reload": "720h"}, Standing: &schemas.StandingRule{WholeLog: true}, Witnesses: &schemas.WitnessRule{Names: []string{"w"}, Threshold: 1},
			Boxed:      &schemas.BoxedRule{Methods: []string{"bubblewrap"}, Admitted: []string{"gpu"}, Attributes: []string{"NETWORK_DENIED"}},
			Built:      &schemas.BuiltRule{Sources: []schemas.ToolSource{{Commit: commit, Patches: []godigest.Digest{sum}}}, Environment: []string{"unpinned"}},
			Calibrated: &schemas.CalibratedRule{Corpora: []schemas.Corpus{{Digest: sum, Licence: "mit"}}}, Parity: &schemas.ParityRule{Cases: 330},
			Placed: &schemas.PlacedRule{Devices: []string{"CPU"}, Uses: []string{"calibrate"}}, Alone: &schemas.AloneRule{Uses: []string{"evaluate"}},
			Released: &schemas.ReleasedRule{Compute: "azure", State: "PowerState/deallocated"}, Completed: &schemas.CompletedRule{Record: true},
			Signers: map[string]schemas.SignerRule{"acquire": signer},
			Classes: map[string]schemas.Class{"8-bit": {
				Description: "d", TensorTypes: []string{"Q8_0"}, Made: []string{"acquire"}, Side: []string{"calibrate"},
				Checked:  []schemas.CheckRule{{Uses: "derive", Of: "artifact", Against: "source", Kernels: []string{"derive"}}},
				Gates:    []schemas.Gate{{Name: "g", Kernel: "k", Metric: "m", Unit: "nats", Compare: "<=", Value: 1, Identity: map[string]string{"a": "b"}, Origin: "o"}},
				Coverage: []schemas.Coverage{{Kind: "reading", Language: "en", Tokens: 128, AtLeast: 1}},
			}},
			Decisions: map[string]schemas.DecisionRule{"accept": {SignerRule: signer, Requires: []string{"chain"}, Isolation: []string{"network"}}},
		}},
		{schemas.TrustURI, &schemas.Trust{
			Schema: schemas.TrustURI, Log: log, Witnesses: []schemas.WitnessKey{{Origin: "witness.example/w1", Key: "witness.example/w1+0a1b2c3d+BNJz", URL: "https://witness.example/w1"}}, TrustedRoot: "root.json", Deciders: []string{"gatekeeper"},
			Functionaries: []schemas.Functionary{{Name: "producer", Key: pemKey, NotBefore: &moment, NotAfter: &moment}, {Name: "ci", Issuer: "i", Subject: "s"}, {Name: "auditor", Keys: []schemas.FunctionaryKey{{Key: pemKey, NotBefore: &moment, NotAfter: &moment}}}},
		}},
		{schemas.ManifestURI, &digest.Manifest{Schema: digest.ManifestSchema, Files: []digest.Entry{{Name: "a/b.json", Size: 1, SHA256: sum, GitBlob: commit}}}},
		{schemas.ReviewURI, &schemas.Review{Verdict: schemas.Passed, Note: "read it", Reviewed: moment, Link: "https://example.org/review"}},
		{schemas.PythonLockURI, &schemas.PythonLock{
			Schema: schemas.PythonLockURI, Python: "3.11", Interpreter: sum, StandardLibrary: schemas.PythonLibrary{Files: 1, Size: 2, Digest: sum},
			Distributions: []schemas.PythonDistribution{{Name: "torch", Version: "2.15.0", Record: sum, Files: 3, Size: 4}},
		}},
		{schemas.ListingURI, &schemas.Listing{
			Schema: schemas.ListingURI, URI: "https://example.org/o/n", Revision: commit, Licence: "mit", BaseModels: []string{"o/base"},
			Files: []schemas.ListedFile{{Path: "LICENSE", Size: 1, GitBlob: commit, SHA256: sum, Scan: "safe", Taken: true}},
		}},
		{schemas.WithdrawalURI, &schemas.Withdrawal{Claim: sum, Reason: "why", Successor: sum}},
		{schemas.CompletionURI, &schemas.Completion{
			Pipeline: sum, Policy: sum, Finished: []godigest.Digest{sum}, Delivered: []schemas.DeliveredFile{{Name: "n", Digest: sum, Size: 1}}, Checkpoint: "c", Compute: "none rented",
			Record: &schemas.CompletionRecord{
				Source:  schemas.RecordSource{Claim: sum, Repository: "o/n", Revision: commit, Licence: "mit", Files: file},
				Tools:   []schemas.RecordTool{{Claim: sum, Stage: "s", Uses: "patch", Commit: commit, Patches: file, Inputs: file, Products: file}},
				Boxes:   []schemas.RecordBox{{Claim: sum, Method: "bubblewrap", Attributes: []string{"NETWORK_DENIED"}}},
				Locks:   []schemas.RecordLock{{Claim: sum, Stage: "s", Name: "tool/python-packages", Digest: sum}},
				Corpora: []schemas.RecordCorpus{{Claim: sum, Name: "corpus/a", Digest: sum, Licence: "mit"}},
				Outputs: []schemas.RecordOutput{{
					Name: "n", Digest: sum, Size: 1, Class: "8-bit", TensorTypes: map[string]int64{"Q8_0": 1}, Metadata: map[string]godigest.Digest{"tokenizer.ggml.tokens": sum},
					Steps: []schemas.RecordStep{{Claim: sum, Stage: "s", Uses: "convert", Parameters: json.RawMessage(`{"type":"BF16"}`), Inputs: file, Tools: file}},
				}},
				Validation: []schemas.RecordValidation{{
					Claim: sum, Stage: "s", Uses: "evaluate", Of: file, Backend: "b", Hardware: map[string]string{"cpus": "2"}, Parameters: json.RawMessage(`{}`), Contexts: []int{128},
					Reports: []schemas.RecordReport{{
						Kernel: "k", Version: "1", Verdict: schemas.Passed, Metrics: []schemas.Metric{{Name: "m", Unit: "nats", Value: 1, Identity: map[string]string{"domain": "real-ids"}}},
						Failures: []schemas.Finding{{Check: "c", Where: "w", Got: "g", Want: "x", Hint: "h"}},
					}},
					Fixtures: []schemas.RecordFixtures{{Kind: "reading", Language: "en", Tokens: "128", Total: 1, Passed: 1}}, Memory: []schemas.RecordMemory{{Scope: "largest sample", Bytes: 1}},
				}},
				NotTested: []string{"speed"},
			},
		}},
	}
}

// documentsOf are all of them: the evidence of a policy holds others.
var documentsOf = append(append(append(documents(), evidenceDocument()), machineDocuments()...), rentDocuments()...)

func evidenceDocument() document {
	of := map[string]any{}
	for _, d := range documents() {
		of[d.uri] = d.full
	}
	index := int64(3)
	artifact := []schemas.PolicyArtifact{{Name: "n", Digest: sum}}
	return document{schemas.EvidenceURI, &schemas.PolicyEvidence{
		Schema: schemas.EvidenceURI, Question: schemas.PolicyQuestion{Decision: "accept", Class: "8-bit", Artifact: sum, Policy: sum, At: moment},
		Policy: *of[schemas.PolicyURI].(*schemas.Policy), Log: schemas.PolicyLog{Size: 4, Whole: true},
		Claims: []schemas.PolicyClaim{{Bundle: sum, PAE: sum, Functionary: "producer", Key: sum, PredicateType: "p", Subjects: artifact, Index: &index, Appended: &moment, SignedAt: &moment, Withdrawn: true}},
		Runs: []schemas.PolicyRun{{
			PAE: sum, Claims: []godigest.Digest{sum}, Withdrawn: true, Stage: "s", Uses: "acquire", Publisher: &schemas.Publisher{Repository: "o/n", Revision: commit, Allow: []string{"*"}},
			Finished: &moment, Subjects: artifact, Inputs: artifact, Needs: []schemas.PolicyNeed{{Name: "source/n", Digest: sum, Commit: commit}}, Result: of[schemas.ResultURI].(*schemas.Result), Reports: []schemas.Report{*of[schemas.ReportURI].(*schemas.Report)},
			Listing: of[schemas.ListingURI].(*schemas.Listing), Missing: []string{"m"},
		}},
		Summaries:   []schemas.PolicySummary{{Bundle: sum, URI: "u", Policy: sum, Result: "PASSED", Levels: []string{"l"}, RestsOn: []godigest.Digest{sum}, Verified: &moment}},
		Completions: []schemas.PolicyCompletion{{Bundle: sum, Policy: sum, Finished: []godigest.Digest{sum}, Delivered: artifact, Compute: "none rented", Recorded: true}},
		Reviews:     []schemas.PolicyReview{{Bundle: sum, Review: *of[schemas.ReviewURI].(*schemas.Review)}},
		Attributes:  []schemas.PolicyAttributes{{Bundle: sum, Asserted: []schemas.PolicyAsserted{{Attribute: "NETWORK_DENIED", Method: "bubblewrap", Boot: "b", Admitted: "gpu"}}}},
		Withdrawals: []schemas.PolicyWithdrawal{{Bundle: sum, Claim: sum, Reason: "r", Successor: sum, Counts: true}},
		Witnesses:   []schemas.PolicyCosignature{{Name: "w", Time: moment}},
		Unreadable:  []schemas.PolicyUnreadable{{Bundle: sum, Why: "w"}},
	}}
}

// Every Go type round-trips through its schema with nothing lost.
func TestTypesRoundTrip(t *testing.T) {
	for _, d := range documentsOf {
		body, err := json.Marshal(d.full)
		if err != nil {
			t.Fatal(err)
		}
		back := reflect.New(reflect.TypeOf(d.full).Elem()).Interface()
		if err := schemas.DecodeJSON(d.uri, body, back); err != nil {
			t.Errorf("%s\n%s", err, body)
		} else if !reflect.DeepEqual(back, d.full) {
			t.Errorf("%T: got %+v, want %+v", d.full, back, d.full)
		}
	}
}

// Schema and Go type name the same keys, all the way down.
func TestTypesAndSchemasNameTheSameKeys(t *testing.T) {
	for _, d := range documentsOf {
		body := schemaFile(t, d.uri)
		compareKeys(t, reflect.TypeOf(d.full).Elem(), body, body, "")
	}
}

func compareKeys(t *testing.T, typ reflect.Type, schema, whole map[string]any, at string) {
	t.Helper()
	if ref, ok := schema["$ref"].(string); ok && strings.HasPrefix(ref, schemas.BaseURI) {
		schema = schemaFile(t, ref)
		whole = schema
	}
	if ref, ok := schema["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, "#/$defs/")
		schema = whole["$defs"].(map[string]any)[name].(map[string]any)
	}
	switch {
	case typ == reflect.TypeFor[json.RawMessage]() || typ == reflect.TypeFor[time.Time]():
	case typ.Kind() == reflect.Pointer:
		compareKeys(t, typ.Elem(), schema, whole, at)
	case typ.Kind() == reflect.Slice:
		if items, ok := schema["items"].(map[string]any); ok {
			compareKeys(t, typ.Elem(), items, whole, at+"[]")
		}
	case typ.Kind() == reflect.Map:
		if more, ok := schema["additionalProperties"].(map[string]any); ok {
			compareKeys(t, typ.Elem(), more, whole, at+"{}")
		}
	case typ.Kind() == reflect.Struct:
		properties, _ := schema["properties"].(map[string]any)
		if schema["additionalProperties"] != false {
			t.Errorf("%s at %q: additionalProperties is not false", whole["$id"], at)
		}
		left := map[string]bool{}
		for key := range properties {
			left[key] = true
		}
		for _, f := range reflect.VisibleFields(typ) {
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous || key == "" {
				continue
			}
			property, ok := properties[key].(map[string]any)
			if !ok {
				t.Errorf("%s at %q: the type has %q, the schema lacks it", whole["$id"], at, key)
				continue
			}
			delete(left, key)
			compareKeys(t, f.Type, property, whole, at+"/"+key)
		}
		for key := range left {
			t.Errorf("%s at %q: the schema has %q, the type lacks it", whole["$id"], at, key)
		}
	}
}

// edit is one change to a document that makes it invalid.
type edit struct {
	name    string
	uri     string
	pointer string // what is replaced, or added
	value   any    // nil removes
	at      string // where the refusal points
	want    string // a part of what it says
}

func TestSchemasReject(t *testing.T) {
	for _, c := range []edit{
		{"another schema", schemas.ReportURI, "/schema", "x", "/schema", schemas.ReportURI},
		{"a verdict nobody knows", schemas.ReportURI, "/verdict", "PASSED", "/verdict", "passed"},
		{"a passed report with a missed control", schemas.ReportURI, "/verdict", "passed", "/controls/missed", "0"},
		{"a metric without a unit", schemas.ReportURI, "/metrics/0/unit", nil, "/metrics/0", "unit"},
		{"a metric with an empty unit", schemas.ReportURI, "/metrics/0/unit", "", "/metrics/0/unit", "length"},
		{"a value that is a string", schemas.ReportURI, "/metrics/0/value", "0.25", "/metrics/0/value", "number"},
		{"an input by a weak digest", schemas.ReportURI, "/inputs/0/digest", "md5:00", "/inputs/0/digest", "pattern"},
		{"a wrongly cased key", schemas.ReportURI, "/Verdict", "passed", "", "differ in more than case"},
		{"an unknown key", schemas.ReportURI, "/accepted", true, "/", "accepted"},
		{"negative counts", schemas.ReportURI, "/controls/missed", -1, "/controls/missed", ">= 0"},
		{"a passed result that failed", schemas.ResultURI, "/verdict", "passed", "/exitStatus", "0"},
		{"a fact that is a number", schemas.ResultURI, "/facts/n", 3, "/facts/n", "string"},
		{"a branch as revision", schemas.PipelineURI, "/publisher/revision", "main", "/publisher/revision", "pattern"},
		{"an upper-case revision", schemas.PipelineURI, "/publisher/revision", strings.Repeat("0A", 20), "/publisher/revision", "pattern"},
		{"a pattern that leaves the tree", schemas.PipelineURI, "/publisher/allow/0", "../*", "/publisher/allow/0", "Patterns"},
		{"an absolute pattern", schemas.PipelineURI, "/publisher/allow/0", "/etc/*", "/publisher/allow/0", "Patterns"},
		{"a stage name that is a path", schemas.PipelineURI, "/stages/0/name", "../x", "/stages/0/name", "pattern"},
		{"no stages", schemas.PipelineURI, "/stages", []any{}, "/stages", "minimum 1"},
		{"parameters that are no object", schemas.PipelineURI, "/stages/0/with", "x", "/stages/0/with", "object"},
		{"a threshold of zero", schemas.PolicyURI, "/signers/acquire/threshold", 0, "/signers/acquire/threshold", ">= 1"},
		{"nobody may sign", schemas.PolicyURI, "/signers/acquire/functionaries", []any{}, "/signers/acquire/functionaries", "minimum 1"},
		{"one functionary twice", schemas.PolicyURI, "/signers/acquire/functionaries", []any{"a", "a"}, "/signers/acquire/functionaries", "equal"},
		{"a comparison nobody knows", schemas.PolicyURI, "/classes/8-bit/gates/0/compare", "<", "/classes/8-bit/gates/0/compare", "<="},
		{"a gate without a unit", schemas.PolicyURI, "/classes/8-bit/gates/0/unit", nil, "/classes/8-bit/gates/0", "unit"},
		{"a number without an origin", schemas.PolicyURI, "/classes/8-bit/gates/0/origin", nil, "/classes/8-bit/gates/0", "origin"},
		{"no checks", schemas.PolicyURI, "/classes/8-bit/checked", []any{}, "/classes/8-bit/checked", "minimum 1"},
		{"no path", schemas.PolicyURI, "/classes/8-bit/made", []any{}, "/classes/8-bit/made", "minimum 1"},
		{"a decision that requires nothing", schemas.PolicyURI, "/decisions/accept/requires", []any{}, "/decisions/accept/requires", "minimum 1"},
		{"a decision nobody knows", schemas.PolicyURI, "/decisions/ship", map[string]any{"functionaries": []any{"a"}, "threshold": 1, "requires": []any{"chain"}}, "", "accept"},
		{"no decisions", schemas.PolicyURI, "/decisions", map[string]any{}, "/decisions", "minimum 1"},
		{"trust in nobody", schemas.TrustURI, "/functionaries", []any{}, "/functionaries", "minimum 1"},
		{"a key and an identity", schemas.TrustURI, "/functionaries/0/issuer", "i", "/functionaries/0", "Either key, or"},
		{"a key and a list of keys", schemas.TrustURI, "/functionaries/2/key", pemKey, "/functionaries/2", "Either key, or"},
		{"a period beside a list of keys", schemas.TrustURI, "/functionaries/2/notAfter", "2026-03-01T00:00:00Z", "/functionaries/2", "Either key, or"},
		{"an empty list of keys", schemas.TrustURI, "/functionaries/2/keys", []any{}, "/functionaries/2/keys", "minimum 1"},
		{"an issuer without a subject", schemas.TrustURI, "/functionaries/1/subject", nil, "/functionaries/1", "Either key, or"},
		{"a private key as trust", schemas.TrustURI, "/functionaries/0/key", "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n", "/functionaries/0/key", "pattern"},
		{"a date without a time", schemas.TrustURI, "/functionaries/0/notAfter", "2026-03-01", "/functionaries/0/notAfter", "date-time"},
		{"an identity without a trusted root", schemas.TrustURI, "/trustedRoot", nil, "/", "trustedRoot"},
		{"a log without a key", schemas.TrustURI, "/log/key", nil, "/log", "key"},
		{"a scan state that can never be allowed", schemas.PolicyURI, "/scans/allowed", []any{"unsafe"}, "/scans/allowed/0", "one of"},
		{"an age without a unit", schemas.PolicyURI, "/fresh/reload", "720", "/fresh/reload", "pattern"},
		{"no ages", schemas.PolicyURI, "/fresh", map[string]any{}, "/fresh", "minimum 1"},
		{"a threshold of no witnesses", schemas.PolicyURI, "/witnesses/threshold", 0.0, "/witnesses/threshold", ">= 1"},
		{"a threshold of no reviewers", schemas.PolicyURI, "/reviewers/threshold", 0.0, "/reviewers/threshold", ">= 1"},
		{"no box that is none", schemas.PolicyURI, "/boxed/methods", []any{"none"}, "/boxed/methods/0", "one of"},
		{"a box that shows nothing", schemas.PolicyURI, "/boxed/attributes", []any{}, "/boxed/attributes", "minimum 1"},
		{"a source by its branch", schemas.PolicyURI, "/built/sources/0/commit", "master", "/built/sources/0/commit", "pattern"},
		{"no source", schemas.PolicyURI, "/built/sources", []any{}, "/built/sources", "minimum 1"},
		{"a patch by its name", schemas.PolicyURI, "/built/sources/0/patches/0", "a.patch", "/built/sources/0/patches/0", "pattern"},
		{"a corpus without a licence", schemas.PolicyURI, "/calibrated/corpora/0/licence", nil, "/calibrated/corpora/0", "licence"},
		{"parity over no case", schemas.PolicyURI, "/parity/cases", 0.0, "/parity/cases", ">= 1"},
		{"a machine left stopped", schemas.PolicyURI, "/released/state", "PowerState/stopped", "/released/state", "PowerState/deallocated"},
		{"a review that says nothing", schemas.ReviewURI, "/note", "", "/note", "length"},
		{"an undecided review", schemas.ReviewURI, "/verdict", "undecided", "/verdict", "one of"},
		{"a review without a moment", schemas.ReviewURI, "/reviewed", "yesterday", "/reviewed", "date-time"},
		{"a lock of another Python", schemas.PythonLockURI, "/python", "2.7", "/python", "match"},
		{"a distribution without a RECORD", schemas.PythonLockURI, "/distributions/0/record", nil, "/distributions/0", "record"},
		{"a listing without files", schemas.ListingURI, "/files", []any{}, "/files", "minimum 1"},
		{"a listed file without a scan state", schemas.ListingURI, "/files/0/scan", "", "/files/0/scan", "length"},
		{"a decider twice", schemas.TrustURI, "/deciders", []any{"a", "a"}, "/deciders", "equal"},
		{"deciders who are nobody", schemas.TrustURI, "/deciders", []any{}, "/deciders", "minimum 1"},
		{"a policy pinned by a word", schemas.TrustURI, "/policies", []any{"latest"}, "/policies/0", "pattern"},
		{"no policy pinned", schemas.TrustURI, "/policies", []any{}, "/policies", "minimum 1"},
		{"a list of no other logs", schemas.TrustURI, "/logs", []any{}, "/logs", "minimum 1"},
		{"another log without a key", schemas.TrustURI, "/logs", []any{map[string]any{"origin": "a.example/log"}}, "/logs/0", "key"},
		{"a secret log key as trust", schemas.TrustURI, "/log/key", "PRIVATE+KEY+x+0a1b2c3d+AdJz", "/log/key", "pattern"},
		{"a withdrawal without a reason", schemas.WithdrawalURI, "/reason", "", "/reason", "length"},
		{"a withdrawal of no claim", schemas.WithdrawalURI, "/claim", nil, "/", "claim"},
		{"a run that finished nothing", schemas.CompletionURI, "/finished", []any{}, "/finished", "minimum 1"},
		{"a run that delivered nothing", schemas.CompletionURI, "/delivered", []any{}, "/delivered", "minimum 1"},
		{"compute that is unknown", schemas.CompletionURI, "/compute", "released", "/compute", "pattern"},
		{"a manifest name that leaves the tree", schemas.ManifestURI, "/files/0/name", "a/../../b", "/files/0/name", "never upwards"},
		{"an absolute manifest name", schemas.ManifestURI, "/files/0/name", "/etc/passwd", "/files/0/name", "never upwards"},
		{"a manifest name with a backslash", schemas.ManifestURI, "/files/0/name", `a\b`, "/files/0/name", "never upwards"},
		{"a manifest of nothing", schemas.ManifestURI, "/files", []any{}, "/files", "minimum 1"},
		{"a negative size", schemas.ManifestURI, "/files/0/size", -1, "/files/0/size", ">= 0"},
		{"a fixture without an expectation", schemas.FixturesURI, "/fixtures/0/expect", nil, "/fixtures/0", "expect"},
		{"a way to match nobody knows", schemas.FixturesURI, "/fixtures/0/expect/match", "regex", "/fixtures/0/expect/match", "exact"},
		{"a token id that is negative", schemas.FixturesURI, "/fixtures/0/prompt_ids/0", -1, "/fixtures/0/prompt_ids/0", ">= 0"},
		{"no fixtures", schemas.FixturesURI, "/fixtures", []any{}, "/fixtures", "minimum 1"},
	} {
		t.Run(strings.TrimPrefix(c.uri, schemas.BaseURI)+" "+c.name, func(t *testing.T) {
			doc := baseDocument(t, c.uri)
			if err := schemas.Validate(c.uri, marshal(t, doc)); err != nil {
				t.Fatalf("the document is invalid before the edit: %v", err)
			}
			set(t, doc, c.pointer, c.value)
			err := schemas.Validate(c.uri, marshal(t, doc))
			if err == nil {
				t.Fatal("got no error")
			}
			var invalid *schemas.InvalidError
			if errors.As(err, &invalid) && c.at != "" && c.at != "/" && invalid.Pointer != c.at {
				t.Errorf("refused at %s, want %s: %v", invalid.Pointer, c.at, err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("refused as %v, want …%s…", err, c.want)
			}
		})
	}
}
