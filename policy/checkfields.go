package policy

import (
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/schemas"
)

// ruleField is the part of a policy that a rule reads and that nothing else does.
type ruleField struct {
	name  string
	given func(schemas.Policy) bool
}

// ruleFields are the rules that need a field of their own. A field that no
// decision's rule reads would be a constraint that is never applied.
var ruleFields = map[string]ruleField{
	"licence":   {"licences", func(p schemas.Policy) bool { return len(p.Licences) > 0 }},
	"scans":     {"scans", func(p schemas.Policy) bool { return p.Scans != nil }},
	"notices":   {"notices", func(p schemas.Policy) bool { return p.Notices != nil && len(p.Licences) > 0 }},
	"review":    {"reviewers", func(p schemas.Policy) bool { return p.Reviewers != nil }},
	"fresh":     {"fresh", func(p schemas.Policy) bool { return len(p.Fresh) > 0 }},
	"standing":  {"standing", func(p schemas.Policy) bool { return p.Standing != nil }},
	"witnesses": {"witnesses", func(p schemas.Policy) bool { return p.Witnesses != nil }},

	"boxed":      {"boxed", func(p schemas.Policy) bool { return p.Boxed != nil }},
	"built":      {"built", func(p schemas.Policy) bool { return p.Built != nil }},
	"calibrated": {"calibrated", func(p schemas.Policy) bool { return p.Calibrated != nil }},
	"parity":     {"parity", func(p schemas.Policy) bool { return p.Parity != nil }},
	"placed":     {"placed", func(p schemas.Policy) bool { return p.Placed != nil }},
	"alone":      {"alone", func(p schemas.Policy) bool { return p.Alone != nil }},
	"released":   {"released", func(p schemas.Policy) bool { return p.Released != nil }},
}

// scanStates that a policy may allow: unsafe and suspicious never are.
var scanStates = []string{"safe", "queued", "unscanned", "error", "caution", "absent"}

func checkFields(p schemas.Policy) error {
	for _, rule := range sortedKeys(ruleFields) {
		field := ruleFields[rule]
		if rule != "licence" && rule != "notices" && field.given(p) && !required(p, rule) {
			return place{field.name}.fault("it is never applied; require the rule %s", rule)
		}
	}
	if p.Notices != nil && !required(p, "notices") {
		return place{"notices"}.fault("it is never applied; require the rule notices")
	}
	if p.Scans != nil {
		if err := checkScans(*p.Scans); err != nil {
			return err
		}
	}
	if p.Notices != nil {
		if err := checkNotices(p); err != nil {
			return err
		}
	}
	if p.Reviewers != nil {
		if err := checkReviewers(p); err != nil {
			return err
		}
	}
	if p.Fresh != nil {
		if err := checkFresh(p); err != nil {
			return err
		}
	}
	if p.Witnesses != nil {
		at := place{"witnesses"}
		if err := checkThreshold(at, p.Witnesses.Threshold, len(p.Witnesses.Names), "witnesses"); err != nil {
			return err
		}
		if err := checkDistinct(at.in("names"), p.Witnesses.Names); err != nil {
			return err
		}
	}
	if p.Completed != nil && !required(p, "completed") {
		return place{"completed"}.fault("it is never applied; require the rule completed")
	}
	return checkTools(p)
}

// Only narrows a policy to some decisions, and to the fields that their rules read.
func Only(p schemas.Policy, decisions map[string]schemas.DecisionRule) schemas.Policy {
	p.Decisions = decisions
	for rule, drop := range map[string]func(){
		"scans": func() { p.Scans = nil }, "notices": func() { p.Notices = nil }, "review": func() { p.Reviewers = nil }, "fresh": func() { p.Fresh = nil },
		"standing": func() { p.Standing = nil }, "witnesses": func() { p.Witnesses = nil }, "boxed": func() { p.Boxed = nil }, "built": func() { p.Built = nil },
		"calibrated": func() { p.Calibrated = nil }, "parity": func() { p.Parity = nil }, "placed": func() { p.Placed = nil }, "alone": func() { p.Alone = nil },
		"released": func() { p.Released = nil }, "completed": func() { p.Completed = nil },
	} {
		if !required(p, rule) {
			drop()
		}
	}
	return p
}

func required(p schemas.Policy, rule string) bool {
	for _, d := range p.Decisions {
		if slices.Contains(d.Requires, rule) {
			return true
		}
	}
	return false
}

func checkScans(r schemas.ScanRule) error {
	at := place{"scans", "allowed"}
	if len(r.Allowed) == 0 {
		return at.fault("empty; name the scan states that are good enough")
	}
	for i, state := range r.Allowed {
		if !slices.Contains(scanStates, state) {
			return at.in(i).fault("the scan state %q is unknown or can never be allowed; want one of %s", state, strings.Join(scanStates, ", "))
		}
	}
	return checkDistinct(at, r.Allowed)
}

func checkNotices(p schemas.Policy) error {
	at := place{"notices", "files"}
	if len(p.Notices.Files) == 0 {
		return at.fault("empty; name the licence and notice files that must come along")
	}
	if err := checkDistinct(at, p.Notices.Files); err != nil {
		return err
	}
	for _, model := range sortedKeys(p.Notices.Upstreams) {
		if l := p.Notices.Upstreams[model]; !slices.Contains(p.Licences, l) {
			return place{"notices", "upstreams", model}.fault("the licence %q is not one that the policy allows (%s)", l, strings.Join(p.Licences, ", "))
		}
	}
	return nil
}

// checkReviewers keeps those apart who make and who review: then nobody can hide
// that a reviewer made the artifact by leaving out his claim.
func checkReviewers(p schemas.Policy) error {
	at := place{"reviewers"}
	if err := checkSigners(at, *p.Reviewers); err != nil {
		return err
	}
	for _, name := range sortedKeys(p.Classes) {
		for _, uses := range append(slices.Clone(p.Classes[name].Made), p.Classes[name].Side...) {
			for i, f := range p.Reviewers.Functionaries {
				if slices.Contains(p.Signers[uses].Functionaries, f) {
					return at.in("functionaries", i).fault("%q may sign stage type %s, which makes class %s; who makes an artifact cannot review it", f, uses, name)
				}
			}
		}
	}
	return nil
}

func checkFresh(p schemas.Policy) error {
	at := place{"fresh"}
	if len(p.Fresh) == 0 {
		return at.fault("empty; state how old which evidence may be")
	}
	for _, name := range sortedKeys(p.Fresh) {
		at := at.in(name)
		_, signed := p.Signers[name]
		switch {
		case name == freshReview && p.Reviewers == nil, name == freshWitnesses && p.Witnesses == nil:
			return at.fault("the policy asks for none")
		case name == freshAcceptance || name == freshReview || name == freshWitnesses:
		case !signed || name == "withdraw":
			return at.fault("unknown evidence %q; want a stage type that somebody may sign, or %s, %s, %s", name, freshAcceptance, freshReview, freshWitnesses)
		}
		if _, err := hours(p.Fresh[name]); err != nil {
			return at.fault("%v", err)
		}
	}
	return nil
}
