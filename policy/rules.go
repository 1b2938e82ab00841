// Package policy decides over verified claims: whether an artifact may be
// accepted, delivered, redistributed. It is pure: no I/O and no clock. Every
// rule is named; a rule that finds nothing to look at is undecided, never
// passed, and undecided allows nothing.
package policy

import "sort"

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
	"scans":        ruleScans,
	"notices":      ruleNotices,
	"review":       ruleReview,
	"fresh":        ruleFresh,
	"standing":     ruleStanding,
	"witnesses":    ruleWitnesses,
	"boxed":        ruleBoxed,
	"built":        ruleBuilt,
	"calibrated":   ruleCalibrated,
	"parity":       ruleParity,
	"placed":       rulePlaced,
	"alone":        ruleAlone,
	"released":     ruleReleased,
}

// needsMoment are the rules that judge ages, against [Question].At.
var needsMoment = map[string]bool{"fresh": true, "witnesses": true}

// Rules lists the rule names, sorted.
func Rules() []string {
	names := make([]string, 0, len(rules))
	for name := range rules {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
