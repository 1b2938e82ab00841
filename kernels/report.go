// Package kernels holds the contract that every verification kernel keeps: a
// kernel is one named, versioned computation that ends in a [Report] of
// metrics (each with its unit), findings and a verdict, and that plants faults
// in copies of its own input to show that it could have said no.
//
// The kernels themselves are the packages below this one. None of them does
// I/O beyond the io.ReaderAt that it is given, and none imports another room.
package kernels

import (
	"fmt"
	"math"
	"slices"
	"strings"

	godigest "github.com/opencontainers/go-digest"
)

// BaseURI is the start of every URI that this project mints.
const BaseURI = "https://github.com/weighmaster/weighmaster/"

// ReportSchema identifies the JSON form of a [Report].
const ReportSchema = BaseURI + "schema/report/v1"

// Verdict is the outcome of a check. The zero value is not a verdict.
type Verdict string

const (
	Passed    Verdict = "passed"    // measured, and it holds
	Failed    Verdict = "failed"    // measured, and it does not hold
	Undecided Verdict = "undecided" // not measured, not measurable here, or a control was missed
)

// Input is one input of a kernel run, by content.
type Input struct {
	Name   string          `json:"name"`
	Digest godigest.Digest `json:"digest"`
	Size   int64           `json:"size"` // bytes
}

// Metric is one measured number. Value is finite; [Report.Finish] refuses others.
// Identity says what the number is about (corpus, domain, positions, engine …):
// numbers with different identities are never compared.
type Metric struct {
	Name     string            `json:"name"`
	Unit     string            `json:"unit"`
	Value    float64           `json:"value"`
	Identity map[string]string `json:"identity,omitempty"`
}

// Finding is one difference: which check, where (tensor, row, byte range, key), got and want.
type Finding struct {
	Check string `json:"check"`
	Where string `json:"where"`
	Got   string `json:"got"`
	Want  string `json:"want"`
	Hint  string `json:"hint,omitempty"` // what to do next
}

func (f Finding) String() string {
	s := fmt.Sprintf("%s: %s: got %s, want %s", f.Check, f.Where, f.Got, f.Want)
	if f.Hint != "" {
		s += "; " + f.Hint
	}
	return s
}

// Lines shows findings one a line, at most [MaxFindings] of them and how many more there are.
func Lines(findings []Finding) string {
	lines := make([]string, 0, min(len(findings), MaxFindings+1))
	for i, f := range findings {
		if i == MaxFindings {
			lines = append(lines, fmt.Sprintf("and %d more", len(findings)-i))
			break
		}
		lines = append(lines, f.String())
	}
	return strings.Join(lines, "\n")
}

// ControlResult is the outcome of one planted fault. A control that is not Red is missed.
type ControlResult struct {
	Name   string `json:"name"`
	Fault  string `json:"fault"`  // the kind of fault that was planted
	Red    bool   `json:"red"`    // the kernel reported it
	Detail string `json:"detail"` // what the kernel said
}

// Controls counts the planted faults of one run: Planted = Red + Missed.
type Controls struct {
	Planted int             `json:"planted"`
	Red     int             `json:"red"`
	Missed  int             `json:"missed"`
	Results []ControlResult `json:"results"`
}

// Add records one planted fault.
func (c *Controls) Add(r ControlResult) {
	c.Planted++
	if r.Red {
		c.Red++
	} else {
		c.Missed++
	}
	c.Results = append(c.Results, r)
}

// Judge records one planted fault: it is red when there is a finding of the kind
// that it has to cause, which is then its detail.
func (c *Controls) Judge(name, fault string, found []Finding, wanted func(Finding) bool) {
	r := ControlResult{Name: name, Fault: fault, Detail: "nothing of the kind was reported"}
	if i := slices.IndexFunc(found, wanted); i >= 0 {
		r.Red, r.Detail = true, found[i].String()
	}
	c.Add(r)
}

// Report is what a kernel run ends in. It is stored as evidence in RFC 8785
// JSON; its schema is schemas/report.v1.json.
type Report struct {
	Schema   string    `json:"schema"`
	Kernel   string    `json:"kernel"`
	Version  string    `json:"version"`
	Spec     string    `json:"spec"` // the specification or reference that the kernel follows
	Inputs   []Input   `json:"inputs"`
	Metrics  []Metric  `json:"metrics"`
	Findings []Finding `json:"findings"`
	// FindingsOmitted counts findings beyond [MaxFindings], so that a wholly wrong file gives a readable report.
	FindingsOmitted int      `json:"findingsOmitted"`
	Controls        Controls `json:"controls"`
	Verdict         Verdict  `json:"verdict"`
}

// MaxFindings bounds the findings that a report lists.
const MaxFindings = 100

// Metric adds a measured number without an identity.
func (r *Report) Metric(name, unit string, value float64) {
	r.Metrics = append(r.Metrics, Metric{Name: name, Unit: unit, Value: value})
}

// Find adds a difference.
func (r *Report) Find(f Finding) {
	if len(r.Findings) >= MaxFindings {
		r.FindingsOmitted++
		return
	}
	r.Findings = append(r.Findings, f)
}

// Finish sets the verdict: failed with any finding, undecided when a control
// was missed or none was planted, else passed. A kernel that could not measure
// sets Undecided itself afterwards. A non-finite metric is an error: it can be
// neither stored nor compared.
func (r *Report) Finish() error {
	for _, m := range r.Metrics {
		if math.IsNaN(m.Value) || math.IsInf(m.Value, 0) {
			return fmt.Errorf("kernel %s: metric %s: got %v, want a finite number; the measurement is not usable", r.Kernel, m.Name, m.Value)
		}
	}
	switch {
	case len(r.Findings) > 0:
		r.Verdict = Failed
	case r.Controls.Missed > 0 || r.Controls.Planted == 0:
		r.Verdict = Undecided
	default:
		r.Verdict = Passed
	}
	return nil
}
