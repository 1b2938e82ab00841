package policy_test

import (
	"slices"
	"strings"
	"testing"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

func TestAPolicyThatCouldSucceedVacuouslyIsRefused(t *testing.T) {
	class := func(do func(*schemas.Class)) func(*schemas.Policy) {
		return func(p *schemas.Policy) {
			c := p.Classes[policytest.Class]
			do(&c)
			p.Classes[policytest.Class] = c
		}
	}
	decision := func(name string, do func(*schemas.DecisionRule)) func(*schemas.Policy) {
		return func(p *schemas.Policy) {
			d := p.Decisions[name]
			d.Requires = slices.Clone(d.Requires)
			do(&d)
			p.Decisions[name] = d
		}
	}
	without := func(rule string) func(*schemas.DecisionRule) {
		return func(d *schemas.DecisionRule) {
			d.Requires = slices.DeleteFunc(d.Requires, func(r string) bool { return r == rule })
		}
	}
	list := []struct {
		name  string
		do    func(*schemas.Policy)
		words string
	}{
		{"no classes", func(p *schemas.Policy) { p.Classes = nil }, "a policy that decides nothing is refused"},
		{"no decisions", func(p *schemas.Policy) { p.Decisions = nil }, "a policy that decides nothing is refused"},
		{"threshold 0", func(p *schemas.Policy) {
			p.Signers["quantize"] = schemas.SignerRule{Functionaries: []string{"producer"}}
		}, "signers.quantize.threshold: got 0, want 1 to 1"},
		{"a threshold above the people named", func(p *schemas.Policy) {
			p.Signers["quantize"] = schemas.SignerRule{Functionaries: []string{"producer"}, Threshold: 2}
		}, "signers.quantize.threshold: got 2, want 1 to 1"},
		{"one person named twice", func(p *schemas.Policy) {
			p.Signers["quantize"] = schemas.SignerRule{Functionaries: []string{"producer", "producer"}, Threshold: 2}
		}, `"producer" is empty or named twice`},
		{"nobody named for a stage that the class needs", func(p *schemas.Policy) { delete(p.Signers, "baseline") }, "signers.baseline is missing"},
		{"a path that does not start at the publisher", class(func(c *schemas.Class) { c.Made = []string{"convert", "quantize"} }), "starts with acquire"},
		{"a path of one stage", class(func(c *schemas.Class) { c.Made = c.Made[:1] }), "starts with acquire"},
		{"nothing checked", class(func(c *schemas.Class) { c.Checked = nil }), "nothing to check would mean nothing was checked"},
		{"no gates", class(func(c *schemas.Class) { c.Gates = nil }), "nothing to check"},
		{"no coverage", class(func(c *schemas.Class) { c.Coverage = nil }), "nothing to check"},
		{"no tensor types", class(func(c *schemas.Class) { c.TensorTypes = nil }), "nothing to check"},
		{"a check of neither artifact nor source", class(func(c *schemas.Class) {
			c.Checked = slices.Clone(c.Checked)
			c.Checked[0].Of = "model"
		}), `checked[0].of: got "model"`},
		{"a check without kernels", class(func(c *schemas.Class) {
			c.Checked = slices.Clone(c.Checked)
			c.Checked[0].Kernels = nil
		}), "checked[0].kernels: empty"},
		{"a gate on a kernel that nobody brings", class(func(c *schemas.Class) {
			c.Gates = slices.Clone(c.Gates)
			c.Gates[0].Kernel = "digest"
		}), `no required check brings a report of kernel "digest"`},
		{"percent for a fraction", class(func(c *schemas.Class) {
			c.Gates = slices.Clone(c.Gates)
			c.Gates[2].Unit = "percent"
		}), `gates[2].unit: got "percent", want "fraction": the unit of nll_ratio`},
		{"a metric that the kernel does not measure", class(func(c *schemas.Class) {
			c.Gates = slices.Clone(c.Gates)
			c.Gates[0].Metric = "kl"
		}), `gates[0].metric: unknown metric "kl"; kernel divergence measures kl_max, kl_mean`},
		{"a review without reviewers", decision("redistribute", func(d *schemas.DecisionRule) { d.Requires = append(d.Requires, "review") }), "the rule review needs the policy's field reviewers"},
		{"ages that nobody states", decision("redistribute", func(d *schemas.DecisionRule) { d.Requires = append(d.Requires, "fresh") }), "the rule fresh needs the policy's field fresh"},
		{"witnesses whom nobody names", decision("redistribute", func(d *schemas.DecisionRule) { d.Requires = append(d.Requires, "witnesses") }), "the rule witnesses needs the policy's field witnesses"},
		{"scans without states", decision("redistribute", func(d *schemas.DecisionRule) { d.Requires = append(d.Requires, "scans") }), "the rule scans needs the policy's field scans"},
		{"licences that nobody names", func(p *schemas.Policy) { p.Licences = nil }, "the rule licence needs the policy's field licences"},
		{"scans that are never applied", func(p *schemas.Policy) { p.Scans = &schemas.ScanRule{Allowed: []string{"safe"}} }, "scans: it is never applied; require the rule scans"},
		{"reviewers that are never applied", func(p *schemas.Policy) {
			p.Reviewers = &schemas.SignerRule{Functionaries: []string{"alice"}, Threshold: 1}
		}, "reviewers: it is never applied"},
		{"notices that are never applied", decision("redistribute", without("notices")), "notices: it is never applied"},
		{"standing that is never applied", decision("redistribute", without("standing")), "standing: it is never applied"},
		{"a reviewer who may make it", func(p *schemas.Policy) {
			p.Reviewers = &schemas.SignerRule{Functionaries: []string{"alice", "producer"}, Threshold: 1}
			d := p.Decisions["redistribute"]
			d.Requires = append(slices.Clone(d.Requires), "review")
			p.Decisions["redistribute"] = d
		}, `reviewers.functionaries[1]: "producer" may sign stage type acquire, which makes class 4-bit; who makes an artifact cannot review it`},
		{"more witnesses than are named", func(p *schemas.Policy) {
			p.Witnesses = &schemas.WitnessRule{Names: []string{"w1"}, Threshold: 2}
			d := p.Decisions["redistribute"]
			d.Requires = append(slices.Clone(d.Requires), "witnesses")
			p.Decisions["redistribute"] = d
		}, "witnesses.threshold: got 2, want 1 to 1 (the witnesses named)"},
		{"an upstream under a licence that is not allowed", func(p *schemas.Policy) {
			p.Notices = &schemas.NoticeRule{Files: []string{"LICENSE"}, Upstreams: map[string]string{"origin/model": "cc-by-nc-4.0"}}
		}, `notices.upstreams.origin/model: the licence "cc-by-nc-4.0" is not one that the policy allows`},
		{"an unsafe file that is allowed", func(p *schemas.Policy) {
			p.Scans = &schemas.ScanRule{Allowed: []string{"unsafe"}}
			d := p.Decisions["redistribute"]
			d.Requires = append(slices.Clone(d.Requires), "scans")
			p.Decisions["redistribute"] = d
		}, `scans.allowed[0]: the scan state "unsafe" is unknown or can never be allowed`},
		{"an age of nothing known", func(p *schemas.Policy) {
			p.Fresh = map[string]schemas.Age{"weather": "1h"}
			d := p.Decisions["redistribute"]
			d.Requires = append(slices.Clone(d.Requires), "fresh")
			p.Decisions["redistribute"] = d
		}, `fresh.weather: unknown evidence "weather"`},
		{"an age in minutes", func(p *schemas.Policy) {
			p.Fresh = map[string]schemas.Age{"reload": "90m"}
			d := p.Decisions["redistribute"]
			d.Requires = append(slices.Clone(d.Requires), "fresh")
			p.Decisions["redistribute"] = d
		}, `fresh.reload: got "90m", want whole hours`},
		{"an unknown comparison", class(func(c *schemas.Class) {
			c.Gates = slices.Clone(c.Gates)
			c.Gates[0].Compare = "<"
		}), `gates[0].compare: got "<"`},
		{"two gates of one name", class(func(c *schemas.Class) { c.Gates = append(slices.Clone(c.Gates), c.Gates[0]) }), "used twice"},
		{"coverage by no fixture", class(func(c *schemas.Class) { c.Coverage = []schemas.Coverage{{Kind: "thinking"}} }), "coverage[0].atLeast: got 0"},
		{"coverage that no check could bring", class(func(c *schemas.Class) {
			c.Checked = slices.Clone(c.Checked)
			c.Checked[3].Kernels = []string{"divergence"}
		}), `no required check of the artifact brings a report of kernel "evaluate"`},
		{"an unknown decision", func(p *schemas.Policy) { p.Decisions["publish"] = p.Decisions["deliver"] }, "decisions.publish: unknown decision"},
		{"a decision that requires nothing", decision("deliver", func(d *schemas.DecisionRule) { d.Requires = nil }), "a decision that needs nothing is refused"},
		{"an unknown rule", decision("accept", func(d *schemas.DecisionRule) { d.Requires = append(d.Requires, "vibes") }), `unknown rule "vibes"; known are accepted, alone, boxed, built, calibrated, chain`},
		{"threshold 0 for a decision", decision("accept", func(d *schemas.DecisionRule) { d.Threshold = 0 }), "decisions.accept.threshold: got 0"},
		{"deliver without acceptance", decision("deliver", without("accepted")), "deliver without the rule accepted would skip acceptance"},
		{"redistribute without acceptance", decision("redistribute", without("accepted")), "redistribute without the rule accepted"},
		{"isolation that is never applied", decision("redistribute", without("reloaded")), "decisions.redistribute.isolation: [network] is never applied"},
	}
	for _, rule := range []string{"source", "chain", "signers", "results", "checks", "controls", "gates", "coverage", "tensor-types"} {
		list = append(list, struct {
			name  string
			do    func(*schemas.Policy)
			words string
		}{"accept without " + rule, decision("accept", without(rule)), "decisions.accept.requires: the rule " + rule + " is missing"})
	}
	for _, c := range list {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.do(&w.Policy)
			if err := policy.Check(w.Policy); err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("got %v, want a refusal with %q", err, c.words)
			}
			if d, err := policy.Decide(w.Policy, policy.Evidence{}, question(w, policy.Accept)); err == nil || d.Verdict == schemas.Passed {
				t.Errorf("Decide answered %s, %v", d.Verdict, err)
			}
		})
	}
	if err := policy.Check(newWorld(t).Policy); err != nil {
		t.Errorf("the example policy is refused: %v", err)
	}
}

func TestAQuestionThatMakesNoSenseIsAnError(t *testing.T) {
	w := newWorld(t)
	good := question(w, policy.Accept)
	for name, c := range map[string]struct {
		do    func(*policy.Question)
		words string
	}{
		"an unknown decision": {func(q *policy.Question) { q.Decision = "publish" }, `decision "publish": the policy "example-release" has none of that name; it has [accept deliver redistribute]`},
		"an unknown class":    {func(q *policy.Question) { q.Class = "3-bit" }, `class "3-bit"`},
		"no artifact":         {func(q *policy.Question) { q.Artifact = "" }, `the artifact's digest: got "", want sha256`},
		"a weak digest":       {func(q *policy.Question) { q.Artifact = "md5:00" }, "want sha256"},
		"no policy digest":    {func(q *policy.Question) { q.Policy = godigest.Digest("sha256:") }, "the policy's digest"},
	} {
		q := good
		c.do(&q)
		if _, err := policy.Decide(w.Policy, policy.Evidence{}, q); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.words)
		}
	}
}
