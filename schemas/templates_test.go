package schemas_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures"
	"github.com/weighmaster/weighmaster/schemas"
)

// What init writes into a project is valid, and so are the embedded fixtures.
func TestTemplatesAreValid(t *testing.T) {
	fill := strings.NewReplacer("@REPOSITORY@", "example/model", "@REVISION@", strings.Repeat("0a", 20), "@NAME@", "model").Replace
	var p schemas.Policy
	if err := schemas.DecodeYAML("release.yaml", []byte(fill(fixtures.Policy)), schemas.PolicyURI, &p); err != nil {
		t.Error(err)
	}
	if len(p.Classes) == 0 || p.Decisions["accept"].Threshold != 1 {
		t.Errorf("policy was read as %+v", p)
	}
	var line schemas.Pipeline
	if err := schemas.DecodeYAML("pipeline.yaml", []byte(fill(fixtures.Pipeline)), schemas.PipelineURI, &line); err != nil {
		t.Error(err)
	}
	if len(line.Stages) == 0 || !json.Valid(line.Stages[0].With) {
		t.Errorf("pipeline was read as %+v", line)
	}
	evaluation, _, err := fixtures.Evaluation()
	if err != nil {
		t.Fatal(err)
	}
	if err := schemas.Validate(schemas.FixturesURI, evaluation); err != nil {
		t.Error(err)
	}
}
