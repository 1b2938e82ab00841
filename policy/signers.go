package policy

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/schemas"
)

// signed holds the claims of one Statement against the rule for a stage type.
func (in *inquiry) signed(uses string, claims []attest.Claim) Reason {
	rule, ok := in.policy.Signers[uses]
	if !ok {
		return undecided("signers of "+uses, "the policy names nobody", "signers."+uses)
	}
	return countSigners("signers of "+uses, rule, claims)
}

// countSigners counts distinct functionaries that signed with distinct keys.
func countSigners(what string, rule schemas.SignerRule, claims []attest.Claim) Reason {
	keys := map[godigest.Digest]bool{}
	people := map[string]bool{}
	var others []string
	for _, c := range claims {
		switch {
		case !slices.Contains(rule.Functionaries, c.Functionary()):
			others = append(others, c.Functionary())
		case !keys[c.Key()] && !people[c.Functionary()]:
			keys[c.Key()], people[c.Functionary()] = true, true
		}
	}
	names := make([]string, 0, len(people))
	for n := range people {
		names = append(names, n)
	}
	sort.Strings(names)
	got := fmt.Sprintf("%d of them: %s", len(names), strings.Join(names, ", "))
	if len(names) == 0 {
		got = "none of them"
	}
	if len(others) > 0 {
		got += "; and not counted: " + strings.Join(others, ", ")
	}
	want := fmt.Sprintf("%d of %s", rule.Threshold, strings.Join(rule.Functionaries, ", "))
	var pae godigest.Digest
	if len(claims) > 0 {
		pae = claims[len(claims)-1].PAE()
	}
	if len(names) < rule.Threshold {
		return failed(what, got, want, pae)
	}
	return passed(what, got, want, pae)
}

func ruleSigners(in *inquiry) []Reason {
	var reasons []Reason
	for _, run := range in.usedRuns() {
		r := in.signed(run.Uses, run.Claims)
		r.What = run.name()
		reasons = append(reasons, r)
	}
	return reasons
}
