package policy_test

import (
	"testing"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

// edit changes one report of a step.
func edit(step string, report int, do func(*schemas.Report)) func(*testing.T, *policytest.World) {
	return func(t *testing.T, w *policytest.World) { do(w.Step(t, step).Reports[report]) }
}

// metric changes every metric of a name in one report; a nil function takes it out.
func metric(step string, report int, name string, do func(*schemas.Metric)) func(*testing.T, *policytest.World) {
	return edit(step, report, func(r *schemas.Report) {
		var kept []schemas.Metric
		for _, m := range r.Metrics {
			if m.Name == name {
				if do == nil {
					continue
				}
				do(&m)
			}
			kept = append(kept, m)
		}
		r.Metrics = kept
	})
}

func TestReportsMustBePassedAndOverTheseBytes(t *testing.T) {
	failed, undecided := schemas.Failed, schemas.Undecided
	refusals(t, policy.Accept, []change{
		{"a report over other bytes", edit("q8-derived", 0, func(r *schemas.Report) { r.Inputs[0].Digest = otherFile.Digest }),
			failed, []want{{"checks", failed, "kernel derive 1.0.0: failed: got a report over other bytes"}}},
		{"a failed report", edit("q8-derived", 0, func(r *schemas.Report) {
			r.Verdict, r.Findings = schemas.Failed, []schemas.Finding{{Check: "values", Where: "blk.0.attn_q.weight", Got: "another scale", Want: "0.5"}}
		}), failed, []want{{"checks", failed, "failed: values: blk.0.attn_q.weight: got another scale"}}},
		{"an undecided report", edit("q8-derived", 0, func(r *schemas.Report) { r.Verdict = schemas.Undecided }),
			undecided, []want{{"checks", undecided, "kernel derive 1.0.0: undecided"}}},
		{"a required kernel brings no report", func(t *testing.T, w *policytest.World) {
			s := w.Step(t, "q8-evaluated")
			s.Reports = s.Reports[:1]
		}, undecided, []want{{"checks", undecided, "no report of kernel divergence"}}},
		{"a bad report beside a good one", func(t *testing.T, w *policytest.World) {
			bad := policytest.Report("derive", policytest.Artifact)
			bad.Verdict, bad.Findings = schemas.Failed, []schemas.Finding{{Check: "values", Where: "output.weight", Got: "1", Want: "2"}}
			again := *w.Step(t, "q8-derived")
			again.Name, again.Reports = "q8-derived-before", []*schemas.Report{bad}
			w.Add(t, "q8", &again)
		}, failed, []want{{"checks", failed, "values: output.weight"}, {"checks", schemas.Passed, "kernel derive"}}},
		{"a missed control", edit("q8-derived", 0, func(r *schemas.Report) {
			r.Verdict, r.Controls.Red, r.Controls.Missed, r.Controls.Results[0].Red = schemas.Undecided, 0, 1, false
		}), failed, []want{{"controls", failed, "q8-derived (derive): kernel derive: failed: got 1 planted, 0 red, 1 missed"}}},
		{"no control planted", edit("q8-derived", 0, func(r *schemas.Report) {
			r.Verdict, r.Controls = schemas.Undecided, schemas.Controls{Results: []schemas.ControlResult{}}
		}), undecided, []want{{"controls", undecided, "got 0 planted, 0 red, 0 missed"}}},
		{"passed with no control planted", edit("q8-derived", 0, func(r *schemas.Report) {
			r.Controls = schemas.Controls{Results: []schemas.ControlResult{}}
		}), undecided, []want{{"checks", undecided, "at /controls/planted: got 0"}}},
		{"control counts that do not add up", edit("q8-derived", 0, func(r *schemas.Report) { r.Controls.Planted, r.Controls.Red = 2, 2 }),
			failed, []want{{"controls", failed, "2 planted, 2 red, 0 missed, but 1 results with 1 red"}}},
		{"a missed control in a stage that no check asks for", edit("source", 0, func(r *schemas.Report) {
			r.Verdict, r.Controls.Red, r.Controls.Missed, r.Controls.Results[0].Red = schemas.Undecided, 0, 1, false
		}), failed, []want{{"controls", failed, "source (acquire): kernel acquisition"}}},
	})
}

func TestRunsMustHaveEndedWell(t *testing.T) {
	failed, undecided := schemas.Failed, schemas.Undecided
	refusals(t, policy.Accept, []change{
		{"a failed exit status behind a passed verdict", func(t *testing.T, w *policytest.World) { w.Step(t, "q8").Result.ExitStatus = 137 },
			undecided, []want{{"results", undecided, "q8 (quantize): undecided: got schema/result/v1: at /exitStatus: got 137"}}},
		{"a killed command", func(t *testing.T, w *policytest.World) {
			r := &w.Step(t, "q8").Result
			r.Verdict, r.ExitStatus, r.Failure = schemas.Failed, 137, "killed"
		}, failed, []want{{"results", failed, "q8 (quantize): failed: got failed, exit status 137: killed"}}},
		{"a failed run", func(t *testing.T, w *policytest.World) {
			r := &w.Step(t, "bf16").Result
			r.Verdict, r.ExitStatus, r.Failure = schemas.Failed, 1, "the disk was full"
		}, failed, []want{{"results", failed, "the disk was full"}}},
		{"an undecided run", func(t *testing.T, w *policytest.World) { w.Step(t, "baseline").Result.Verdict = schemas.Undecided },
			undecided, []want{{"results", undecided, "baseline (baseline)"}}},
		{"a licence that is not allowed", func(t *testing.T, w *policytest.World) {
			w.Step(t, "source").Result.Facts["licence"] = "cc-by-nc-4.0"
		}, failed, []want{{"licence", failed, "got cc-by-nc-4.0, want cc0-1.0, apache-2.0, mit"}}},
		{"no licence", func(t *testing.T, w *policytest.World) { delete(w.Step(t, "source").Result.Facts, "licence") },
			undecided, []want{{"licence", undecided, "the publisher declares none"}}},
		{"an absent licence", func(t *testing.T, w *policytest.World) { w.Step(t, "source").Result.Facts["licence"] = "absent" },
			undecided, []want{{"licence", undecided, "the publisher declares none"}}},
	})
}

func TestObjectsAreHashedBeforeTheyAreBelieved(t *testing.T) {
	w := newWorld(t)
	ev := w.Sign(t).Evidence
	runs, _ := policy.Runs(ev.Claims)
	for _, c := range []struct {
		name, uses string
		altered    bool
		wants      []want
	}{
		{"a report that is not there", "derive", false, []want{{"checks", schemas.Undecided, "byproduct report/derive"}, {"checks", schemas.Undecided, "is not in the evidence"}}},
		{"an altered report", "derive", true, []want{{"checks", schemas.Undecided, "report/derive: the evidence object hashes to sha256:"}}},
		{"a result that is not there", "quantize", false, []want{{"results", schemas.Undecided, "byproduct result"}}},
		{"an altered result", "quantize", true, []want{{"results", schemas.Undecided, "byproduct result: the evidence object hashes to"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			broken := policy.Evidence{Claims: ev.Claims, Objects: map[godigest.Digest][]byte{}}
			for d, body := range ev.Objects {
				broken.Objects[d] = body
			}
			for _, run := range runs {
				if run.Uses != c.uses {
					continue
				}
				list := run.Evidence()
				d := list[len(list)-1] // the report of derive, the result of quantize
				delete(broken.Objects, d)
				if c.altered {
					broken.Objects[d] = append([]byte(" "), ev.Objects[d]...)
				}
			}
			check(t, decide(t, w, broken, policy.Accept), schemas.Undecided, c.wants...)
		})
	}
}
