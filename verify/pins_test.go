package verify_test

import (
	"testing"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

// Without a pin a policy counts only as far as the trust file says who decides.
func TestUnpinnedPolicies(t *testing.T) {
	failed, undecided := schemas.Failed, schemas.Undecided
	run(t, []tampering{
		{"nobody named", func(t *testing.T, d *delivery) { d.Deciders = nil }, undecided, "policy document", undecided, []string{"which nobody pinned", "--policy", "deciders"}},
		{"others than those who may decide", func(t *testing.T, d *delivery) { d.Deciders = []string{policytest.Second} },
			failed, "policy document", failed, []string{"got decisions by [gatekeeper], want only by [second]"}},
		{"an acceptance, for which nobody signed the policy", func(t *testing.T, d *delivery) { d.Decision = policy.Accept },
			undecided, "policy document", undecided, []string{"no signed decision under it is needed"}},
		{"those who may decide", func(t *testing.T, d *delivery) { d.Deciders = []string{policytest.Second, policytest.Gatekeeper} },
			schemas.Passed, "policy document", schemas.Passed, []string{"example-release"}},
		{"nobody named, and the policy given", func(t *testing.T, d *delivery) { d.Deciders, d.Input.Policy = nil, d.Package.Policy },
			schemas.Passed, "policy document", schemas.Passed, []string{"example-release"}},
	})
}

// A policy travels in the package; a reader who pins policies takes no other.
func TestPinnedPolicies(t *testing.T) {
	failed := schemas.Failed
	run(t, []tampering{
		{"another policy than those pinned", func(t *testing.T, d *delivery) { d.Policies = []godigest.Digest{godigest.FromString("ours")} },
			failed, "policy document", failed, []string{"which the trust file pins", godigest.FromString("ours").String()}},
		{"one of the policies pinned", func(t *testing.T, d *delivery) {
			d.Policies = []godigest.Digest{godigest.FromString("ours"), policyDigest(t)}
		}, schemas.Passed, "policy document", schemas.Passed, []string{"example-release"}},
	})
}
