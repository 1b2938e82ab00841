package policy_test

import (
	"testing"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

func TestGates(t *testing.T) {
	failed, undecided := schemas.Failed, schemas.Undecided
	refusals(t, policy.Accept, []change{
		{"above the bound", metric("q8-evaluated", 1, "kl_mean", func(m *schemas.Metric) { m.Value = 0.0031 }),
			failed, []want{{"gates", failed, "gate kl-mean (divergence kl_mean): failed: got 0.0031 nats, want <= 0.003 nats"}}},
		{"below the bound", metric("q8-evaluated", 1, "top1_agreement", func(m *schemas.Metric) { m.Value = 0.969 }),
			failed, []want{{"gates", failed, "got 0.969 fraction, want >= 0.97 fraction"}}},
		{"not equal", metric("q8-derived", 0, "tensors_differing", func(m *schemas.Metric) { m.Value = 1 }),
			failed, []want{{"gates", failed, "got 1 tensors, want == 0 tensors"}}},
		{"in another unit", metric("q8-evaluated", 1, "kl_mean", func(m *schemas.Metric) { m.Unit = "bits" }),
			failed, []want{{"gates", failed, "got 0.001 bits, want a value in nats"}}},
		{"over another domain", metric("q8-evaluated", 1, "kl_mean", func(m *schemas.Metric) { m.Identity = map[string]string{"domain": "padded"} }),
			undecided, []want{{"gates", undecided, "no metric kl_mean of kernel divergence with identity map[domain:real-ids]"}}},
		{"over no stated domain", metric("q8-evaluated", 1, "kl_mean", func(m *schemas.Metric) { m.Identity = nil }),
			undecided, []want{{"gates", undecided, "no metric kl_mean"}}},
		{"not measured", metric("q8-evaluated", 1, "nll_ratio", nil),
			undecided, []want{{"gates", undecided, "gate nll: undecided: got no metric nll_ratio"}}},
		{"a bad number beside a good one", edit("q8-evaluated", 1, func(r *schemas.Report) {
			m := r.Metrics[0]
			m.Value = 3
			r.Metrics = append([]schemas.Metric{m}, r.Metrics...)
		}), failed, []want{{"gates", failed, "got 3 nats"}, {"gates", schemas.Passed, "got 0.001 nats"}}},
	})
	t.Run("a divergence of the top ids and one bucket for the rest", func(t *testing.T) {
		lower := func(m *schemas.Metric) { m.Identity = map[string]string{"domain": "real-ids", "bound": "lower"} }
		w := newWorld(t)
		metric("q8-evaluated", 1, "kl_mean", lower)(t, w)
		check(t, decide(t, w, w.Sign(t).Evidence, policy.Accept), undecided, want{"gates", undecided, "at least 0.001 nats, which tells nothing of the rest, want <= 0.003 nats"})
		w = newWorld(t)
		metric("q8-evaluated", 1, "kl_mean", func(m *schemas.Metric) { lower(m); m.Value = 0.004 })(t, w)
		check(t, decide(t, w, w.Sign(t).Evidence, policy.Accept), failed, want{"gates", failed, "at least 0.004 nats, want <= 0.003 nats"})
	})
	t.Run("two domains under a gate that names none", func(t *testing.T) {
		w := newWorld(t)
		edit("q8-evaluated", 1, func(r *schemas.Report) {
			for _, m := range r.Metrics {
				if m.Name == "nll_ratio" {
					m.Identity = map[string]string{"domain": "padded"}
					r.Metrics = append(r.Metrics, m)
				}
			}
		})(t, w)
		check(t, decide(t, w, w.Sign(t).Evidence, policy.Accept), undecided, want{"gates", undecided, "measured over the domains padded and real-ids, which cannot be compared"})
	})
	t.Run("a speed beside another resident model", func(t *testing.T) {
		for alone, verdict := range map[string]schemas.Verdict{"yes": schemas.Passed, "no: another model was resident": undecided, "": undecided} {
			w := newWorld(t)
			class := w.Policy.Classes[policytest.Class]
			class.Gates = append(class.Gates, schemas.Gate{Name: "speed", Kernel: "reload", Metric: "elapsed", Unit: "nanoseconds", Compare: "<=", Value: 10, Identity: map[string]string{"alone": "yes"}, Origin: "declared here"})
			class.Checked = append(class.Checked, schemas.CheckRule{Uses: "reload", Of: "artifact", Kernels: []string{"reload"}})
			w.Policy.Classes[policytest.Class] = class
			rep := policytest.Report("reload", policytest.Artifact)
			rep.Metrics = []schemas.Metric{{Name: "elapsed", Unit: "nanoseconds", Value: 1, Identity: map[string]string{"alone": alone}}}
			w.Step(t, "q8-reloaded").Reports = []*schemas.Report{rep}
			check(t, decide(t, w, w.Sign(t).Evidence, policy.Accept), verdict, want{"gates", verdict, "gate speed"})
		}
	})
	t.Run("exactly at the bound", func(t *testing.T) {
		w := newWorld(t)
		metric("q8-evaluated", 1, "kl_mean", func(m *schemas.Metric) { m.Value = 0.003 })(t, w)
		check(t, decide(t, w, w.Sign(t).Evidence, policy.Accept), schemas.Passed)
	})
}

func TestCoverageAndTensorTypes(t *testing.T) {
	failed, undecided := schemas.Failed, schemas.Undecided
	only := func(kind, language string, do func(*schemas.Metric)) func(*testing.T, *policytest.World) {
		return edit("q8-evaluated", 0, func(r *schemas.Report) {
			var kept []schemas.Metric
			for _, m := range r.Metrics {
				if m.Identity["kind"] == kind && m.Identity["language"] == language {
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
	refusals(t, policy.Accept, []change{
		{"a kind that was not run", only("thinking", "", nil), undecided, []want{{"coverage", undecided, "fixtures thinking: undecided: got not measured"}}},
		{"a language that was not run", only("arithmetic", "zh", nil), undecided, []want{{"coverage", undecided, "fixtures arithmetic/zh"}}},
		{"one fixture of a kind failed", only("tool-call", "", func(m *schemas.Metric) {
			if m.Name == "fixtures_passed" {
				m.Value = 1
			}
		}), failed, []want{{"coverage", failed, "fixtures tool-call: failed: got 1 of 2 passed"}}},
		{"none of a kind was run", only("tool-call", "", func(m *schemas.Metric) { m.Value = 0 }),
			failed, []want{{"coverage", failed, "got 0 of 0 passed, want all of at least 1"}}},
		{"a context length that was configured and not filled", only("retrieval", "", func(m *schemas.Metric) {
			if m.Identity["tokens"] == "512" {
				m.Identity = map[string]string{"kind": "retrieval", "configured": "512"}
			}
		}), undecided, []want{{"coverage", undecided, "fixtures retrieval at 512 tokens: undecided: got not measured"}}},
		{"counts in another unit", only("thinking", "", func(m *schemas.Metric) { m.Unit = "tokens" }),
			undecided, []want{{"coverage", undecided, "fixtures thinking"}}},
		{"the source's fixtures do not cover the artifact", func(t *testing.T, w *policytest.World) {
			w.Step(t, "baseline").Reports[0].Metrics = w.Step(t, "q8-evaluated").Reports[0].Metrics
			w.Step(t, "q8-evaluated").Reports[0].Metrics = []schemas.Metric{}
		}, undecided, []want{{"coverage", undecided, "fixtures reading/en"}}},
		{"a tensor type that is not allowed", edit("q8-derived", 0, func(r *schemas.Report) {
			r.Metrics = append(r.Metrics, schemas.Metric{Name: "tensors/Q4_K", Unit: "tensors", Value: 1})
		}), failed, []want{{"tensor-types", failed, "got 1 Q4_K, 5 F32, 7 Q8_0, want only Q8_0, F32"}}},
		{"tensor types that were not counted", edit("q8-derived", 0, func(r *schemas.Report) { r.Metrics = r.Metrics[:1] }),
			undecided, []want{{"tensor-types", undecided, "not counted"}}},
	})
}
