package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	godigest "github.com/opencontainers/go-digest"
	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

func answerOf(verdicts ...schemas.Verdict) policy.Decision {
	d := policy.Decision{
		Decision: "redistribute", Class: "8-bit", Artifact: godigest.FromString("a file"), Policy: godigest.FromString("a policy"),
		At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Verdict: schemas.Passed,
	}
	for _, v := range verdicts {
		d.Reasons = append(d.Reasons, policy.Reason{Rule: "gates", What: `a <bound> & "quotes" ` + "\x01\xff]]>", Verdict: v, Got: "1 nats", Want: "<= 0.5 nats", Claim: godigest.FromString("a claim")})
		if v != schemas.Passed && d.Verdict != schemas.Failed {
			d.Verdict = v
		}
	}
	return d
}

// What is no yes is green in neither file: a failure or an error of JUnit, a result of level error in SARIF.
func TestOnlyAYesLooksGreen(t *testing.T) {
	passed, failed, undecided := schemas.Passed, schemas.Failed, schemas.Undecided
	for name, c := range map[string]struct {
		answer           policy.Decision
		failures, errors int
		code             int
	}{
		"a yes":                           {answerOf(passed, passed), 0, 0, 0},
		"a no":                            {answerOf(passed, failed), 1, 0, 1},
		"undecided":                       {answerOf(passed, undecided), 0, 1, 2},
		"a no and undecided":              {answerOf(undecided, failed), 1, 1, 1},
		"a verdict nobody knows":          {answerOf(passed, "maybe"), 0, 1, 2},
		"a verdict that is empty":         {answerOf(passed, ""), 0, 1, 2},
		"undecided without a reason":      {policy.Decision{Verdict: undecided}, 0, 1, 2},
		"the zero decision":               {policy.Decision{}, 0, 1, 2},
		"a no without a reason but a yes": {func() policy.Decision { d := answerOf(passed); d.Verdict = failed; return d }(), 1, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			checkJUnit(t, c.answer, c.failures, c.errors)
			checkSARIF(t, c.answer, c.failures+c.errors, c.code)
		})
	}
}

// checkJUnit reads the file back as a reader would and holds it to what Ant's
// schema (JUnit.xsd) requires of suites and cases.
func checkJUnit(t *testing.T, d policy.Decision, failures, errs int) {
	t.Helper()
	body, err := encodeJUnit("delivered/a file.gguf", d)
	if err != nil {
		t.Fatal(err)
	}
	var read junitSuites
	if err := xml.Unmarshal(body, &read); err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	s := read.Suites[0]
	if s.Failures != failures || s.Errors != errs || s.Tests != len(s.Cases) || s.Tests == 0 {
		t.Errorf("%d cases, %d tests, %d failures, %d errors; want %d failures, %d errors", len(s.Cases), s.Tests, s.Failures, s.Errors, failures, errs)
	}
	for _, c := range s.Cases {
		if c.Name == "" || c.Classname == "" || c.Time == "" || (c.Failure != nil && c.Error != nil) {
			t.Errorf("case %+v", c)
		}
		for _, p := range []*junitProblem{c.Failure, c.Error} {
			if p != nil && p.Message == "" {
				t.Errorf("case %s has no message", c.Name)
			}
		}
	}
	for _, attr := range []string{" name=", " package=", " id=", " timestamp=", " hostname=", " tests=", " failures=", " errors=", " time="} {
		if !strings.Contains(string(body), attr) {
			t.Errorf("the suite has no attribute%s", attr)
		}
	}
	if strings.Contains(string(body), "skipped") {
		t.Error("something is skipped")
	}
}

// checkSARIF holds the file to SARIF 2.1.0: sections 3.13 (log), 3.14 (run),
// 3.20.14 (executionSuccessful) and 3.27.9, 3.27.10 (kind and level of a result).
func checkSARIF(t *testing.T, d policy.Decision, bad, code int) {
	t.Helper()
	body, err := encodeSARIF("delivered/a file.gguf", d)
	if err != nil {
		t.Fatal(err)
	}
	var read sarifLog
	if err := json.Unmarshal(body, &read); err != nil {
		t.Fatal(err)
	}
	if read.Version != "2.1.0" || !strings.HasSuffix(read.Schema, "sarif-schema-2.1.0.json") || len(read.Runs) != 1 {
		t.Fatalf("version %s, schema %s, %d runs", read.Version, read.Schema, len(read.Runs))
	}
	run := read.Runs[0]
	if inv := run.Invocations[0]; inv.ExitCode != code || inv.Successful != (code != exitUndecided) {
		t.Errorf("the invocation is %+v, want the exit code %d", inv, code)
	}
	validSARIF(t, body)
	errs := 0
	for _, r := range run.Results {
		if r.Level == "error" {
			errs++
		}
		if (r.Kind == "fail") != (r.Level == "error") || (r.Kind == "pass") != (r.Level == "none") {
			t.Errorf("kind %s, level %s", r.Kind, r.Level)
		}
		if run.Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID || r.Message.Text == "" || r.Locations[0].Physical.Artifact.URI != "delivered/a%20file.gguf" {
			t.Errorf("result %+v", r)
		}
	}
	if errs != bad || len(run.Results) == 0 {
		t.Errorf("%d of %d results of level error, want %d", errs, len(run.Results), bad)
	}
}

// validSARIF holds the file to the official schema, by WEIGHMASTER_SARIF_SCHEMA (.ci/interop/install-sarif).
func validSARIF(t *testing.T, body []byte) {
	t.Helper()
	path := os.Getenv("WEIGHMASTER_SARIF_SCHEMA")
	if path == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("WEIGHMASTER_SARIF_SCHEMA is not set; .ci/interop/install-sarif prints it")
		}
		t.Log("WEIGHMASTER_SARIF_SCHEMA is not set: the official schema is not asked")
		return
	}
	schema, err := jsonschema.Compile(path)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(body, &tree); err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(tree); err != nil {
		t.Errorf("SARIF 2.1.0: %v", err)
	}
	tree.(map[string]any)["runs"] = "none"
	if schema.Validate(tree) == nil {
		t.Error("the schema takes a log without runs")
	}
}

func TestAReportIsWrittenWholeAndNeverOutlivesItsQuestion(t *testing.T) {
	dir := t.TempDir()
	files := reportFiles{junit: filepath.Join(dir, "a.xml"), sarif: filepath.Join(dir, "a.sarif")}
	read := func(path string) string {
		body, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	if err := files.write("a", answerOf(schemas.Passed), nil); err != nil || !strings.Contains(read(files.junit), `errors="0"`) {
		t.Fatalf("%v", err)
	}
	if err := files.write("a", policy.Decision{}, errors.New("the ledger is gone")); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(read(files.junit), "the ledger is gone") || !strings.Contains(read(files.sarif), `"level": "error"`) {
		t.Errorf("an earlier answer stays: %s %s", read(files.junit), read(files.sarif))
	}
	if err := (reportFiles{junit: filepath.Join(dir, "nowhere", "a.xml")}).write("a", answerOf(schemas.Passed), nil); err == nil {
		t.Error("a file that could not be written is no error")
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := (reportFiles{sarif: filepath.Join(dir, "folder")}).write("a", answerOf(schemas.Passed), nil); err == nil {
		t.Error("a folder in its place is no error")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.partial")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
