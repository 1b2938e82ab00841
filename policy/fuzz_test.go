package policy_test

import (
	"strings"
	"testing"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

// Whatever policy is taken, it says no to no evidence, in every decision and for every class.
func FuzzRead(f *testing.F) {
	full := fullPolicy()
	f.Add([]byte(full))
	for _, cut := range [][2]string{
		{"requires: [source, chain,", "requires: [chain,"},
		{"threshold: 1", "threshold: 0"},
		{"names: [w1, w2]", "names: []"},
		{"allowed: [safe]", "allowed: [unsafe]"},
		{"reload: 720h", "reload: 0h"},
		{"atLeast: 1", "atLeast: 0"},
		{"made: [acquire, convert]", "made: [convert]"},
		{"wholeLog: false", "wholeLog: true"},
		{"functionaries: [gatekeeper]", "functionaries: [gatekeeper, gatekeeper]"},
		{"value: 0.0005", "value: -1e308"},
		{"signers:", "signers: &a"},
	} {
		f.Add([]byte(strings.Replace(full, cut[0], cut[1], 1)))
	}
	f.Add([]byte("schema: x\n"))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := policy.Read("policy.yaml", body)
		if err != nil {
			return
		}
		for decision := range p.Decisions {
			for class := range p.Classes {
				q := policy.Question{Decision: decision, Class: class, Artifact: policytest.Artifact.Digest, Policy: godigest.FromBytes(body), At: policytest.Now}
				d, err := policy.Decide(p, policy.Evidence{}, q)
				if err != nil || d.Verdict == schemas.Passed || len(d.Reasons) < len(p.Decisions[decision].Requires) {
					t.Errorf("%s for %s of nothing: %s, %v", decision, class, d.Verdict, err)
				}
			}
		}
	})
}
