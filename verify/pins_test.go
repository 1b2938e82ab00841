package verify_test

import (
	"testing"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/schemas"
)

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
