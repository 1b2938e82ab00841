// Package policy decides over verified claims: whether an artifact may be
// accepted, delivered, redistributed. It is pure: no I/O and no clock. Every
// rule is named; a rule that finds nothing to look at is undecided, never
// passed, and undecided allows nothing.
package policy

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/weighmaster/weighmaster/schemas"
)

// Decisions that a policy may allow.
const (
	Accept       = "accept"
	Deliver      = "deliver"
	Redistribute = "redistribute"
)

// acceptNeeds are the rules without which an acceptance would mean nothing: what
// a class demands must be asked for.
var acceptNeeds = []string{"source", "chain", "signers", "results", "checks", "controls", "gates", "coverage", "tensor-types"}

// ruleFunc looks at one requirement and gives at least one reason.
type ruleFunc func(*inquiry) []Reason

// rules are all the names that a decision may require.
var rules = map[string]ruleFunc{
	"source":       ruleSource,
	"chain":        ruleChain,
	"signers":      ruleSigners,
	"results":      ruleResults,
	"checks":       ruleChecks,
	"controls":     ruleControls,
	"gates":        ruleGates,
	"coverage":     ruleCoverage,
	"tensor-types": ruleTensorTypes,
	"licence":      ruleLicence,
	"accepted":     ruleAccepted,
	"delivered":    ruleDelivered,
	"reloaded":     ruleReloaded,
	"completed":    ruleCompleted,
}

// Rules lists the rule names, sorted.
func Rules() []string {
	names := make([]string, 0, len(rules))
	for name := range rules {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Check refuses a policy that could succeed vacuously or that names something
// that does not exist. The first fault is returned; the document is already
// valid against its schema.
func Check(p schemas.Policy) error {
	if len(p.Classes) == 0 || len(p.Decisions) == 0 {
		return fmt.Errorf("policy %q: it has %d classes and %d decisions; a policy that decides nothing is refused", p.Name, len(p.Classes), len(p.Decisions))
	}
	for _, uses := range sortedKeys(p.Signers) {
		if err := checkSigners("signers."+uses, p.Signers[uses]); err != nil {
			return err
		}
	}
	for _, name := range sortedKeys(p.Classes) {
		if err := checkClass(p, name, p.Classes[name]); err != nil {
			return err
		}
	}
	for _, name := range sortedKeys(p.Decisions) {
		if err := checkDecision(name, p.Decisions[name]); err != nil {
			return err
		}
	}
	return nil
}

func checkSigners(where string, r schemas.SignerRule) error {
	if r.Threshold < 1 || r.Threshold > len(r.Functionaries) {
		return fmt.Errorf("%s.threshold: got %d, want 1 to %d (the functionaries named)", where, r.Threshold, len(r.Functionaries))
	}
	seen := map[string]bool{}
	for _, f := range r.Functionaries {
		if f == "" || seen[f] {
			return fmt.Errorf("%s.functionaries: %q is empty or named twice", where, f)
		}
		seen[f] = true
	}
	return nil
}

func checkClass(p schemas.Policy, name string, c schemas.Class) error {
	where := "classes." + name
	if len(c.Made) < 2 || c.Made[0] != "acquire" {
		return fmt.Errorf("%s.made: got %v, want a path of stage types that starts with acquire", where, c.Made)
	}
	if len(c.Checked) == 0 || len(c.Gates) == 0 || len(c.Coverage) == 0 || len(c.TensorTypes) == 0 {
		return fmt.Errorf("%s: checked, gates, coverage and tensorTypes must each name something; nothing to check would mean nothing was checked", where)
	}
	brought := map[string]bool{}
	for i, rule := range c.Checked {
		if rule.Of != "artifact" && rule.Of != "source" {
			return fmt.Errorf("%s.checked[%d].of: got %q, want artifact or source", where, i, rule.Of)
		}
		if len(rule.Kernels) == 0 {
			return fmt.Errorf("%s.checked[%d].kernels: empty; name the kernels whose reports %s must bring", where, i, rule.Uses)
		}
		for _, k := range rule.Kernels {
			brought[k] = true
		}
	}
	for kernel, what := range map[string]string{"evaluate": "coverage", "derive": "tensorTypes"} {
		if !bringsOf(c, kernel) {
			return fmt.Errorf("%s.%s: no required check of the artifact brings a report of kernel %q, so it could never hold", where, what, kernel)
		}
	}
	for _, uses := range signedTypes(c) {
		if _, ok := p.Signers[uses]; !ok {
			return fmt.Errorf("%s: signers.%s is missing: nobody is named who may sign stage type %s", where, uses, uses)
		}
	}
	names := map[string]bool{}
	for i, g := range c.Gates {
		switch {
		case g.Name == "" || names[g.Name]:
			return fmt.Errorf("%s.gates[%d].name: %q is empty or used twice", where, i, g.Name)
		case !slices.Contains([]string{"<=", ">=", "=="}, g.Compare):
			return fmt.Errorf("%s.gates[%d].compare: got %q, want <=, >= or ==", where, i, g.Compare)
		case !brought[g.Kernel]:
			return fmt.Errorf("%s.gates[%d].kernel: no required check brings a report of kernel %q, so the gate could never hold", where, i, g.Kernel)
		}
		names[g.Name] = true
	}
	for i, cov := range c.Coverage {
		if cov.AtLeast < 1 {
			return fmt.Errorf("%s.coverage[%d].atLeast: got %d, want 1 or more", where, i, cov.AtLeast)
		}
	}
	return nil
}

// bringsOf tells whether a class requires a kernel's report over the artifact.
func bringsOf(c schemas.Class, kernel string) bool {
	return slices.ContainsFunc(c.Checked, func(r schemas.CheckRule) bool {
		return r.Of == "artifact" && slices.Contains(r.Kernels, kernel)
	})
}

func checkDecision(name string, d schemas.DecisionRule) error {
	where := "decisions." + name
	if name != Accept && name != Deliver && name != Redistribute {
		return fmt.Errorf("%s: unknown decision; known are %s, %s, %s", where, Accept, Deliver, Redistribute)
	}
	if err := checkSigners(where, d.SignerRule); err != nil {
		return err
	}
	if len(d.Requires) == 0 {
		return fmt.Errorf("%s.requires: empty; a decision that needs nothing is refused", where)
	}
	for _, r := range d.Requires {
		if _, ok := rules[r]; !ok {
			return fmt.Errorf("%s.requires: unknown rule %q; known are %s", where, r, strings.Join(Rules(), ", "))
		}
	}
	if name == Accept {
		for _, r := range acceptNeeds {
			if !slices.Contains(d.Requires, r) {
				return fmt.Errorf("%s.requires: the rule %s is missing; an acceptance without it would accept what nobody looked at", where, r)
			}
		}
	}
	if len(d.Isolation) > 0 && !slices.Contains(d.Requires, "reloaded") {
		return fmt.Errorf("%s.isolation: %v is never applied; require the rule reloaded as well", where, d.Isolation)
	}
	if name != Accept && !slices.Contains(d.Requires, "accepted") {
		return fmt.Errorf("%s.requires: %s without the rule accepted would skip acceptance", where, name)
	}
	return nil
}

// signedTypes are the stage types that a class's evidence needs, sorted.
func signedTypes(c schemas.Class) []string {
	types := append(slices.Clone(c.Made), c.Side...)
	for _, rule := range c.Checked {
		types = append(types, rule.Uses)
		if rule.Against != "" && rule.Against != "source" {
			types = append(types, rule.Against)
		}
	}
	sort.Strings(types)
	return slices.Compact(types)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
