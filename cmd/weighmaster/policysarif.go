package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// SARIF 2.1.0 (OASIS): one run, one result a reason. What failed is of kind fail,
// level error. What is undecided is too: SARIF lets a result of any other kind
// have no level but none, which readers do not show; the verdict is in its
// properties. What passed is of kind pass, level none.
type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool        sarifTool         `json:"tool"`
	Invocations []sarifInvocation `json:"invocations"`
	Artifacts   []sarifArtifact   `json:"artifacts"`
	Results     []sarifResult     `json:"results"`
	Properties  map[string]string `json:"properties"`
}

type sarifTool struct {
	Driver sarifDriver `json:"driver"`
}

type sarifDriver struct {
	Name           string      `json:"name"`
	InformationURI string      `json:"informationUri"`
	Rules          []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID string `json:"id"`
}

type sarifInvocation struct {
	Successful bool `json:"executionSuccessful"` // the policy could be asked and answered
	ExitCode   int  `json:"exitCode"`
}

type sarifArtifact struct {
	Location sarifURI          `json:"location"`
	Hashes   map[string]string `json:"hashes,omitempty"`
}

type sarifURI struct {
	URI string `json:"uri"`
}

type sarifResult struct {
	RuleID     string            `json:"ruleId"`
	RuleIndex  int               `json:"ruleIndex"`
	Kind       string            `json:"kind"`
	Level      string            `json:"level"`
	Message    sarifMessage      `json:"message"`
	Locations  []sarifLocation   `json:"locations"`
	Properties map[string]string `json:"properties"`
}

type sarifMessage struct {
	Text string `json:"text"`
}

type sarifLocation struct {
	Physical sarifPhysical `json:"physicalLocation"`
}

type sarifPhysical struct {
	Artifact struct {
		URI   string `json:"uri"`
		Index int    `json:"index"`
	} `json:"artifactLocation"`
}

func encodeSARIF(artifact string, d policy.Decision) ([]byte, error) {
	uri := fileURI(artifact)
	run := sarifRun{
		Tool:       sarifTool{sarifDriver{Name: "weighmaster", InformationURI: schemas.BaseURI}},
		Artifacts:  []sarifArtifact{{Location: sarifURI{uri}}},
		Results:    []sarifResult{},
		Properties: map[string]string{"decision": d.Decision, "class": d.Class, "policy": d.Policy.String(), "verdict": string(d.Verdict)},
	}
	if d.Artifact.Validate() == nil && d.Artifact.Algorithm() == godigest.SHA256 {
		run.Artifacts[0].Hashes = map[string]string{"sha-256": d.Artifact.Encoded()}
	}
	reasons := d.Reasons
	if d.Verdict != schemas.Passed && len(d.Failures()) == 0 { // a no without a reason stays a no
		reasons = append(reasons, policy.Reason{Rule: "decision", What: "the decision " + d.Decision, Verdict: d.Verdict, Got: string(d.Verdict), Want: "passed"})
	}
	var ids []string
	for _, r := range reasons {
		i := slices.Index(ids, r.Rule)
		if i < 0 {
			i = len(ids)
			ids = append(ids, r.Rule)
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{r.Rule})
		}
		result := sarifResult{
			RuleID: r.Rule, RuleIndex: i, Kind: "fail", Level: "error",
			Message:    sarifMessage{fmt.Sprintf("%s: %s: got %s, want %s", r.What, r.Verdict, r.Got, r.Want)},
			Locations:  make([]sarifLocation, 1),
			Properties: map[string]string{"verdict": string(r.Verdict), "got": r.Got, "want": r.Want},
		}
		result.Locations[0].Physical.Artifact.URI = uri
		if r.Verdict == schemas.Passed {
			result.Kind, result.Level = "pass", "none"
		}
		if r.Claim != "" {
			result.Properties["claim"] = r.Claim.String()
		}
		run.Results = append(run.Results, result)
	}
	code := exitCode(answered(d.Verdict))
	run.Invocations = []sarifInvocation{{Successful: code != exitUndecided, ExitCode: code}}
	body, err := json.MarshalIndent(sarifLog{"https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json", "2.1.0", []sarifRun{run}}, "", "  ")
	return append(body, '\n'), err
}

// fileURI is a relative reference to the file as the user named it.
func fileURI(name string) string {
	return (&url.URL{Path: filepath.ToSlash(name)}).String()
}
