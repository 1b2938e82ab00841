package policy

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/weighmaster/weighmaster/schemas"
)

// InvalidError says that a policy could succeed vacuously, or names something
// that does not exist.
type InvalidError struct {
	Pointer string // JSON pointer (RFC 6901) of the place
	Text    string // the place in words, and what is wrong there
}

func (e *InvalidError) Error() string { return e.Text }

// Read reads policy.yaml strictly, validates it and holds it to [Check]. name is
// the document's name in errors, which give the line.
func Read(name string, body []byte) (schemas.Policy, error) {
	var p schemas.Policy
	if err := schemas.DecodeYAML(name, body, schemas.PolicyURI, &p); err != nil {
		return p, err
	}
	return p, AtLine(name, body, Check(p))
}

// AtLine puts the document's name and the line in front of an [InvalidError]; other errors stay.
func AtLine(name string, body []byte, err error) error {
	if invalid, ok := err.(*InvalidError); ok {
		return fmt.Errorf("%s:%d: %w", name, schemas.LineOf(body, invalid.Pointer), err)
	}
	return err
}

// CheckPeople refuses a policy that names somebody who is not trusted: a
// functionary or a witness of that name does not exist. Errors are as of [Check].
func CheckPeople(p schemas.Policy, functionaries, witnesses []string) error {
	check := func(at place, names, known []string, what string) error {
		for i, n := range names {
			if !slices.Contains(known, n) {
				return at.in(i).fault("unknown %s %q; the trust file names %s", what, n, strings.Join(known, ", "))
			}
		}
		return nil
	}
	for _, uses := range sortedKeys(p.Signers) {
		if err := check(place{"signers", uses, "functionaries"}, p.Signers[uses].Functionaries, functionaries, "functionary"); err != nil {
			return err
		}
	}
	for _, name := range sortedKeys(p.Decisions) {
		if err := check(place{"decisions", name, "functionaries"}, p.Decisions[name].Functionaries, functionaries, "functionary"); err != nil {
			return err
		}
	}
	if p.Reviewers != nil {
		if err := check(place{"reviewers", "functionaries"}, p.Reviewers.Functionaries, functionaries, "functionary"); err != nil {
			return err
		}
	}
	if p.Witnesses != nil {
		return check(place{"witnesses", "names"}, p.Witnesses.Names, witnesses, "witness")
	}
	return nil
}

// place is where in a policy something stands.
type place []string

func (p place) in(parts ...any) place {
	q := slices.Clone(p)
	for _, part := range parts {
		q = append(q, fmt.Sprint(part))
	}
	return q
}

func (p place) String() string {
	var b strings.Builder
	for i, part := range p {
		switch _, err := strconv.Atoi(part); {
		case err == nil && i > 0:
			b.WriteString("[" + part + "]")
		case i > 0:
			b.WriteString("." + part)
		default:
			b.WriteString(part)
		}
	}
	return b.String()
}

func (p place) fault(format string, args ...any) error {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var pointer strings.Builder
	for _, part := range p {
		pointer.WriteString("/" + escape.Replace(part))
	}
	return &InvalidError{pointer.String(), p.String() + ": " + fmt.Sprintf(format, args...)}
}

// Check refuses a policy that could succeed vacuously or that names something
// that does not exist, with an [*InvalidError]. The first fault is returned; the
// document is already valid against its schema.
func Check(p schemas.Policy) error {
	if len(p.Classes) == 0 || len(p.Decisions) == 0 {
		return &InvalidError{"", fmt.Sprintf("policy %q: it has %d classes and %d decisions; a policy that decides nothing is refused", p.Name, len(p.Classes), len(p.Decisions))}
	}
	for _, uses := range sortedKeys(p.Signers) {
		at := place{"signers", uses}
		if uses != "withdraw" {
			if err := checkStage(at, uses); err != nil {
				return err
			}
		}
		if err := checkSigners(at, p.Signers[uses]); err != nil {
			return err
		}
	}
	for _, name := range sortedKeys(p.Classes) {
		if err := checkClass(p, name, p.Classes[name]); err != nil {
			return err
		}
	}
	for _, name := range sortedKeys(p.Decisions) {
		if err := checkDecision(p, name, p.Decisions[name]); err != nil {
			return err
		}
	}
	return checkFields(p)
}

func checkSigners(at place, r schemas.SignerRule) error {
	if err := checkThreshold(at, r.Threshold, len(r.Functionaries), "functionaries"); err != nil {
		return err
	}
	return checkDistinct(at.in("functionaries"), r.Functionaries)
}

func checkThreshold(at place, threshold, n int, who string) error {
	if threshold < 1 || threshold > n {
		return at.in("threshold").fault("got %d, want 1 to %d (the %s named)", threshold, n, who)
	}
	return nil
}

func checkDistinct(at place, names []string) error {
	seen := map[string]bool{}
	for i, n := range names {
		if n == "" || seen[n] {
			return at.in(i).fault("%q is empty or named twice", n)
		}
		seen[n] = true
	}
	return nil
}

func checkStage(at place, uses string) error {
	if !slices.Contains(schemas.StageNames(), uses) {
		return at.fault("unknown stage type %q; known are %s", uses, strings.Join(schemas.StageNames(), ", "))
	}
	return nil
}

func checkDecision(p schemas.Policy, name string, d schemas.DecisionRule) error {
	at := place{"decisions", name}
	if name != Accept && name != Deliver && name != Redistribute {
		return at.fault("unknown decision; known are %s, %s, %s", Accept, Deliver, Redistribute)
	}
	if err := checkSigners(at, d.SignerRule); err != nil {
		return err
	}
	if len(d.Requires) == 0 {
		return at.in("requires").fault("empty; a decision that needs nothing is refused")
	}
	for i, r := range d.Requires {
		if _, ok := rules[r]; !ok {
			return at.in("requires", i).fault("unknown rule %q; known are %s", r, strings.Join(Rules(), ", "))
		}
		if field, ok := ruleFields[r]; ok && !field.given(p) {
			return at.in("requires", i).fault("the rule %s needs the policy's field %s, which is missing", r, field.name)
		}
	}
	if name == Accept {
		for _, r := range acceptNeeds {
			if !slices.Contains(d.Requires, r) {
				return at.in("requires").fault("the rule %s is missing; an acceptance without it would accept what nobody looked at", r)
			}
		}
	}
	for i, fact := range d.Isolation {
		if !slices.Contains(isolationFacts, fact) {
			return at.in("isolation", i).fault("unknown fact %q; a reload records %s", fact, strings.Join(isolationFacts, ", "))
		}
	}
	if len(d.Isolation) > 0 && !slices.Contains(d.Requires, "reloaded") {
		return at.in("isolation").fault("%v is never applied; require the rule reloaded as well", d.Isolation)
	}
	if name != Accept && !slices.Contains(d.Requires, "accepted") {
		return at.in("requires").fault("%s without the rule accepted would skip acceptance", name)
	}
	return nil
}

// isolationFacts are what a reload can record as denied.
var isolationFacts = []string{"network"}

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
