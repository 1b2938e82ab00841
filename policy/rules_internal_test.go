package policy

import (
	"strings"
	"testing"
	"time"

	godigest "github.com/opencontainers/go-digest"

	example "github.com/weighmaster/weighmaster/fixtures"
	"github.com/weighmaster/weighmaster/schemas"
)

// Every rule, asked alone and of nothing, says no, and says what it looked at.
func TestEveryRuleOfNothingIsANo(t *testing.T) {
	text := strings.NewReplacer("@REPOSITORY@", "example/model", "@REVISION@", strings.Repeat("0a", 20)).Replace(example.Policy)
	var p schemas.Policy
	if err := schemas.DecodeYAML("policy.yaml", []byte(text), schemas.PolicyURI, &p); err != nil {
		t.Fatal(err)
	}
	p.Scans = &schemas.ScanRule{Allowed: []string{"safe", "absent"}}
	p.Reviewers = &schemas.SignerRule{Functionaries: []string{"reader"}, Threshold: 1}
	p.Fresh = map[string]schemas.Age{"reload": "1h", "acceptance": "1h", "review": "1h", "witnesses": "1h"}
	p.Witnesses = &schemas.WitnessRule{Names: []string{"w"}, Threshold: 1}
	p.Boxed = &schemas.BoxedRule{Methods: []string{"bubblewrap"}, Attributes: []string{schemas.NetworkIsDenied}}
	p.Built = &schemas.BuiltRule{Sources: []schemas.ToolSource{{Commit: strings.Repeat("0a", 20)}}, Environment: []string{"unpinned"}}
	p.Calibrated = &schemas.CalibratedRule{Corpora: []schemas.Corpus{{Digest: godigest.FromString("a text"), Licence: "mit"}}}
	p.Parity, p.Placed = &schemas.ParityRule{Cases: 1}, &schemas.PlacedRule{Devices: []string{"CPU"}, Uses: []string{"calibrate", "evaluate"}}
	p.Alone, p.Released = &schemas.AloneRule{Uses: []string{"evaluate", "calibrate"}}, &schemas.ReleasedRule{Compute: "azure", State: "PowerState/deallocated"}
	for class := range p.Classes {
		q := Question{Class: class, Artifact: godigest.FromString("a file"), Policy: godigest.FromString(text), At: time.Unix(1e9, 0)}
		for _, name := range Rules() {
			in := newInquiry(p, p.Classes[class], p.Decisions[Redistribute], Evidence{}, q)
			verdict := schemas.Passed
			for _, r := range rules[name](in) {
				verdict = worst(verdict, r.Verdict)
				if r.What == "" || r.Got == "" || r.Want == "" {
					t.Errorf("rule %s gives a reason without words: %+v", name, r)
				}
			}
			if len(rules[name](in)) > 0 && verdict == schemas.Passed {
				t.Errorf("rule %s passed with no evidence at all", name)
			}
		}
	}
}
