package stages

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	scai "github.com/in-toto/attestation/go/predicates/scai/v0"
	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/isolation"
)

// isolateRun prepares a probe with one input, as a tool would have it.
func isolateRun(t *testing.T, with any) *Run {
	t.Helper()
	run := newRun(t, "box", with)
	path := filepath.Join(run.Project, "model.gguf")
	if err := os.WriteFile(path, []byte("weights"), 0o444); err != nil {
		t.Fatal(err)
	}
	f, err := readFile(t.Context(), "model.gguf", path)
	if err != nil {
		t.Fatal(err)
	}
	run.Inputs["model"] = FileArtifact(f)
	return run
}

func needsBox(t *testing.T, m isolation.Method) {
	t.Helper()
	if err := isolation.BoxWorks(m); err != nil {
		shared.Missing(t, "%v", err)
	}
}

// stated reads the attributes that a stage states.
func stated(t *testing.T, out *Outcome) (*scai.AttributeReport, []string) {
	t.Helper()
	if len(out.Statements) != 1 || out.Statements[0].PredicateType != attest.SCAIType {
		t.Fatalf("got the Statements %v, want one of SCAI", out.Statements)
	}
	payload, err := attest.Encode(out.Statements[0])
	if err != nil {
		t.Fatal(err)
	}
	_, predicate, err := attest.DecodeStatement(payload) // as a verifier reads it
	if err != nil {
		t.Fatal(err)
	}
	var r scai.AttributeReport
	if err := protojson.Unmarshal(predicate, &r); err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, a := range r.GetAttributes() {
		list = append(list, a.GetAttribute())
	}
	return &r, list
}

func TestIsolateStatesWhatEveryBoxGives(t *testing.T) {
	for _, m := range []isolation.Method{isolation.Bubblewrap, isolation.Landlock} {
		t.Run(string(m), func(t *testing.T) {
			needsBox(t, m)
			run := isolateRun(t, map[string]any{"box": map[string]any{"method": m}})
			out, err := Isolate{}.Run(t.Context(), run)
			if err != nil {
				t.Fatal(err)
			}
			if out.Verdict != schemas.Passed || out.Facts[schemas.FactBox] != string(m) || out.Facts[schemas.FactNetwork] != schemas.NetworkDenied || out.Facts[schemas.FactBoot] == "" {
				t.Fatalf("%s %q %v", out.Verdict, out.Failure, out.Facts)
			}
			r := out.Reports[0]
			if err := IsolationKernel().CheckFaults(r.Controls); err != nil && m == isolation.Bubblewrap {
				t.Error(err)
			}
			if err := IsolationKernel().CheckGates(r); err != nil {
				t.Error(err)
			}
			report, list := stated(t, out)
			for _, a := range isolation.Gives(m) {
				if !slices.Contains(list, a) {
					t.Errorf("%s is not stated", a)
				}
			}
			for _, a := range report.GetAttributes() {
				body, err := run.Objects.Get(t.Context(), godigest.NewDigestFromEncoded(godigest.SHA256, a.GetEvidence().GetDigest()["sha256"]))
				if err != nil || schemas.Validate(schemas.ReportURI, body) != nil {
					t.Errorf("%s: its evidence %v is no report: %v", a.GetAttribute(), a.GetEvidence(), err)
				}
			}
			if got := out.Statements[0].Subject[0]; got.Name != "box/probes" || got.Digest["sha256"] != out.Evidence[0].Digest.Encoded() {
				t.Errorf("the Statement is about %v, want the probe's findings", got)
			}
			body, err := json.Marshal(out)
			if err != nil {
				t.Fatal(err)
			}
			if probes, _ := run.Objects.Get(t.Context(), out.Evidence[0].Digest); strings.Contains(string(body)+string(probes), run.Project) {
				t.Error("a path of the machine is told")
			}
		})
	}
}

func TestTheReportThatSCAINamesIsTheOneThatTheRunnerStores(t *testing.T) {
	needsBox(t, isolation.Bubblewrap)
	run := isolateRun(t, map[string]any{})
	out, err := Isolate{}.Run(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	report, _ := stated(t, out)
	byproducts, err := Builder{}.byproducts(t.Context(), record{decl: schemas.StageDecl{Name: "box", Uses: "isolate"}, inputs: run.Inputs, outcome: out}, run.Objects)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range byproducts {
		if b.Name == "report/isolation" && b.Digest["sha256"] == report.GetAttributes()[0].GetEvidence().GetDigest()["sha256"] {
			return
		}
	}
	t.Errorf("got the byproducts %v, none of them is %v", byproducts, report.GetAttributes()[0].GetEvidence())
}

func TestIsolateFailsByWhatIsNotShown(t *testing.T) {
	needsBox(t, isolation.Bubblewrap)
	out, err := Isolate{}.Run(t.Context(), isolateRun(t, map[string]any{"box": map[string]any{"method": "bubblewrap", "admit": []string{"network"}}}))
	if err != nil {
		t.Fatal(err)
	}
	if out.Verdict != schemas.Failed || !strings.Contains(out.Failure, schemas.NetworkIsDenied) || out.Facts[schemas.FactNetwork] != schemas.NetworkAdmitted || out.Facts[schemas.FactAdmitted] != "network" {
		t.Errorf("%s %q %v", out.Verdict, out.Failure, out.Facts)
	}
	if _, list := stated(t, out); slices.Contains(list, schemas.NetworkIsDenied) || !slices.Contains(list, schemas.CanaryUnreadable) {
		t.Errorf("got %v stated", list)
	}
	needsBox(t, isolation.Landlock)
	out, err = Isolate{}.Run(t.Context(), isolateRun(t, map[string]any{"require": []string{schemas.HomesHidden}, "box": map[string]any{"method": "landlock"}}))
	if err != nil {
		t.Fatal(err)
	}
	if out.Verdict != schemas.Failed || !strings.Contains(out.Failure, schemas.HomesHidden) {
		t.Errorf("%s %q", out.Verdict, out.Failure)
	}
}

func TestWithoutABoxOnlyTheComputationIsShown(t *testing.T) {
	run := isolateRun(t, map[string]any{"box": map[string]any{"method": "none"}})
	out, err := Isolate{}.Run(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	if _, list := stated(t, out); !slices.Equal(list, []string{schemas.ComputationWorks}) || out.Facts[schemas.FactNetwork] != schemas.NetworkNotEnforced {
		t.Errorf("got %v, %v", list, out.Facts)
	}
	run.With = []byte(`{"require":["NETWORK_DENIED"],"box":{"method":"none"}}`)
	if out, err = (Isolate{}).Run(t.Context(), run); err != nil || out.Verdict != schemas.Failed {
		t.Errorf("got %v, %v, want failed", out.Verdict, err)
	}
}

func TestIsolationSelfCheck(t *testing.T) {
	c := IsolationKernel().Check(t.Context())
	if c.Verdict != kernels.Passed || c.Failure != "" || len(c.LimitProblems) > 0 || c.Controls.Missed != 0 {
		t.Errorf("%+v", c)
	}
}

// A judgement that a hole does not change makes the report unfit.
func TestAMissedControlMakesTheProbeUnfit(t *testing.T) {
	e := isolation.Sample()
	r, err := isolationReport(e, isolation.ShownBy(e), schemas.BoxAttributes())
	if err != nil || r.Verdict != kernels.Passed {
		t.Fatalf("%s %v", r.Verdict, err)
	}
	r.Controls.Add(asked(e, 0, holeOf(e.Tries[0].Attribute), "a hole that nobody opened", e.Tries[0]))
	if err := r.Finish(); err != nil || r.Verdict != kernels.Undecided || r.Controls.Missed != 1 {
		t.Errorf("%s, %d missed, %v", r.Verdict, r.Controls.Missed, err)
	}
	run := isolateRun(t, map[string]any{})
	if s, err := attributeReport(t.Context(), run, e, isolation.ShownBy(e), r, Evidence{Name: "box/probes"}); s != nil || err != nil {
		t.Errorf("got %v, %v, want nothing stated", s, err)
	}
}

func TestIsolateIsShownAgainOnAnotherBoot(t *testing.T) {
	needsBox(t, isolation.Bubblewrap)
	deps, err := Isolate{}.Resolve(t.Context(), isolateRun(t, map[string]any{"box": map[string]any{"method": "bubblewrap"}}))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range deps {
		names = append(names, d.Name)
		if d.Digest.Validate() != nil {
			t.Errorf("%s: %q", d.Name, d.Digest)
		}
	}
	if !slices.Equal(names, []string{"machine/boot", "tool/bwrap"}) {
		t.Errorf("got %v", names)
	}
}
