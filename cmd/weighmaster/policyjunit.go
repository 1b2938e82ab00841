package main

import (
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// The JUnit XML of Apache Ant's tests, as its widely used schema has it: one
// suite a decision, one case a reason. What failed is a failure, what is
// undecided an error: no reader takes either for green, and nothing is "skipped".
type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string          `xml:"name,attr"`
	Package    string          `xml:"package,attr"`
	ID         int             `xml:"id,attr"`
	Timestamp  string          `xml:"timestamp,attr"` // without a zone; UTC
	Hostname   string          `xml:"hostname,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Time       string          `xml:"time,attr"` // seconds
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
	Out        string          `xml:"system-out"`
	Err        string          `xml:"system-err"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Name      string        `xml:"name,attr"`
	Classname string        `xml:"classname,attr"`
	Time      string        `xml:"time,attr"` // seconds
	Error     *junitProblem `xml:"error"`
	Failure   *junitProblem `xml:"failure"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

func encodeJUnit(artifact string, d policy.Decision) ([]byte, error) {
	s := junitSuite{
		Name: "weighmaster " + d.Decision + " of " + artifact, Package: "policy", Timestamp: d.At.UTC().Format("2006-01-02T15:04:05"), Hostname: "localhost", Time: "0",
		Properties: []junitProperty{
			{"decision", d.Decision}, {"class", d.Class}, {"artifact", d.Artifact.String()}, {"policy", d.Policy.String()}, {"verdict", string(d.Verdict)},
		},
		Out: fmt.Sprintf("%s of %s as %s: %s", d.Decision, artifact, d.Class, d.Verdict),
	}
	reasons := d.Reasons
	if d.Verdict != schemas.Passed && len(d.Failures()) == 0 { // a no without a reason stays a no
		reasons = append(reasons, policy.Reason{Rule: "decision", What: "the decision " + d.Decision, Verdict: d.Verdict, Got: string(d.Verdict), Want: "passed"})
	}
	for _, r := range reasons {
		c := junitCase{Name: r.What, Classname: "policy." + r.Rule, Time: "0"}
		text := fmt.Sprintf("got  %s\nwant %s", r.Got, r.Want)
		if r.Claim != "" {
			text += "\nfrom claim " + r.Claim.String()
		}
		problem := &junitProblem{Message: fmt.Sprintf("got %s, want %s", r.Got, r.Want), Type: string(r.Verdict), Text: text}
		switch r.Verdict {
		case schemas.Passed:
		case schemas.Failed:
			c.Failure = problem
			s.Failures++
		default:
			c.Error = problem
			s.Errors++
		}
		s.Cases = append(s.Cases, c)
	}
	s.Tests = len(s.Cases)
	body, err := xml.MarshalIndent(junitSuites{Suites: []junitSuite{s}}, "", "  ")
	if err != nil {
		return nil, err
	}
	return []byte(xml.Header + strings.TrimSpace(string(body)) + "\n"), nil
}
