package intoto

import (
	"crypto"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/in-toto/in-toto-golang/in_toto"
)

// free are the roles of materials that no step of ours makes: tools and what they load.
var free = []string{"tool", "library", "policy", "corpus", "patch", "source"}

// ExportLayout signs a layout over runs, in their order: every run is a step
// that the exporter's key must have signed; its products lie below its own
// name; each of its materials is exactly a product of an earlier step, or
// plays a role that no step makes (tool/…, library/…, policy/…, corpus/…,
// patch/…, source/…). Everything else is disallowed.
func ExportLayout(runs []Run, expires time.Time, key crypto.Signer) ([]byte, error) {
	if len(runs) == 0 {
		return nil, errors.New("layout: got no steps; a layout without steps verifies nothing")
	}
	pub, err := PublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	layout := in_toto.Layout{
		Type: "layout", Inspect: []in_toto.Inspection{}, Steps: []in_toto.Step{},
		Keys:    map[string]in_toto.Key{pub.KeyID: pub},
		Expires: expires.UTC().Format(in_toto.ISO8601DateSchema),
		Readme:  "Exported from verified claims by weighmaster.",
	}
	earlier := map[string]bool{}
	for _, r := range runs {
		if err := checkStep(r.Stage); err != nil {
			return nil, fmt.Errorf("layout: %w", err)
		}
		if earlier[r.Stage] {
			return nil, fmt.Errorf("layout: got the step %s twice, want it once", r.Stage)
		}
		layout.Steps = append(layout.Steps, in_toto.Step{
			Type: "step", PubKeys: []string{pub.KeyID}, ExpectedCommand: []string{}, Threshold: 1,
			SupplyChainItem: in_toto.SupplyChainItem{Name: r.Stage, ExpectedMaterials: materialRules(r, earlier), ExpectedProducts: productRules(r)},
		})
		earlier[r.Stage] = true
	}
	body, _, err := sign(layout, key)
	if err != nil {
		return nil, fmt.Errorf("layout: %w", err)
	}
	return body, nil
}

func materialRules(r Run, earlier map[string]bool) [][]string {
	from := map[string]bool{}
	for name := range r.Materials {
		if stage, _, _ := strings.Cut(name, "/"); earlier[stage] {
			from[stage] = true
		}
	}
	rules := [][]string{}
	for _, stage := range sortedSteps(from) {
		rules = append(rules, []string{"MATCH", stage + "/*", "WITH", "PRODUCTS", "FROM", stage})
	}
	for _, role := range free {
		if !earlier[role] {
			rules = append(rules, []string{"ALLOW", role + "/*"})
		}
	}
	return append(rules, []string{"DISALLOW", "*"})
}

func productRules(r Run) [][]string {
	rules := [][]string{}
	for _, name := range names(r.Products) {
		rules = append(rules, []string{"REQUIRE", name})
	}
	return append(rules, []string{"ALLOW", r.Stage + "/*"}, []string{"DISALLOW", "*"})
}

func sortedSteps(set map[string]bool) []string {
	list := make([]string, 0, len(set))
	for name := range set {
		list = append(list, name)
	}
	sort.Strings(list)
	return list
}
