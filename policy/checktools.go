package policy

import (
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/schemas"
)

// boxMethods are the boxes that a policy may be content with: none is no box.
var boxMethods = []string{"bubblewrap", "landlock", "sandbox-exec"}

// checkTools holds what a policy says about tools to what there is.
func checkTools(p schemas.Policy) error {
	for _, name := range sortedKeys(p.Classes) {
		for i, uses := range p.Classes[name].Side {
			if (uses == "build" || uses == "patch") && !slices.Contains(p.Decisions[Accept].Requires, "built") {
				return place{"classes", name, "side"}.in(i).fault("a tool's source may be any: require the rule built for accept, which holds it against commits that the policy names")
			}
			if uses == "calibrate" && p.Built != nil && p.Calibrated == nil {
				return place{"classes", name, "side"}.in(i).fault("a matrix by a tool that was built for it may come from any text: require the rule calibrated")
			}
		}
	}
	checks := []func() error{}
	if p.Boxed != nil {
		checks = append(checks, func() error { return checkBoxed(p) })
	}
	if p.Built != nil {
		checks = append(checks, func() error { return checkBuilt(*p.Built) })
	}
	if p.Calibrated != nil {
		checks = append(checks, func() error { return checkCorpora(p) })
	}
	if p.Parity != nil {
		checks = append(checks, func() error {
			if p.Parity.Cases < 1 {
				return place{"parity", "cases"}.fault("got %d, want 1 or more", p.Parity.Cases)
			}
			return needSigner(p, "parity", "parity")
		})
	}
	if p.Placed != nil {
		checks = append(checks, func() error {
			if len(p.Placed.Devices) == 0 {
				return place{"placed", "devices"}.fault("empty; name the devices on which weights may lie")
			}
			return checkUses(p, place{"placed", "uses"}, p.Placed.Uses)
		})
	}
	if p.Alone != nil {
		checks = append(checks, func() error { return checkUses(p, place{"alone", "uses"}, p.Alone.Uses) })
	}
	if p.Released != nil {
		checks = append(checks, func() error { return needSigner(p, "released", "release") })
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func needSigner(p schemas.Policy, field, uses string) error {
	if _, ok := p.Signers[uses]; !ok {
		return place{field}.fault("signers.%s is missing: nobody is named who may sign stage type %s", uses, uses)
	}
	return nil
}

func checkUses(p schemas.Policy, at place, list []string) error {
	if len(list) == 0 {
		return at.fault("empty; name the stage types")
	}
	for i, uses := range list {
		if _, ok := p.Signers[uses]; !ok {
			return at.in(i).fault("unknown stage type %q; want one that somebody may sign: %s", uses, strings.Join(sortedKeys(p.Signers), ", "))
		}
	}
	return checkDistinct(at, list)
}

func checkBoxed(p schemas.Policy) error {
	at := place{"boxed"}
	if len(p.Boxed.Methods) == 0 || len(p.Boxed.Attributes) == 0 {
		return at.fault("methods and attributes must each name something; a box of which nothing is shown shows nothing")
	}
	for i, m := range p.Boxed.Methods {
		if !slices.Contains(boxMethods, m) {
			return at.in("methods", i).fault("unknown box %q; want one of %s", m, strings.Join(boxMethods, ", "))
		}
	}
	for i, name := range p.Boxed.Attributes {
		if !slices.Contains(schemas.BoxAttributes(), name) {
			return at.in("attributes", i).fault("unknown attribute %q; a probe shows %s", name, strings.Join(schemas.BoxAttributes(), ", "))
		}
	}
	for i, name := range p.Boxed.Admitted {
		if name == schemas.AdmitNetwork {
			return at.in("admitted", i).fault("the network can never be allowed")
		}
	}
	return needSigner(p, "boxed", "isolate")
}

func checkBuilt(r schemas.BuiltRule) error {
	at := place{"built", "sources"}
	if len(r.Sources) == 0 {
		return at.fault("empty; name the commits from which tools may be built")
	}
	for i, s := range r.Sources {
		if len(s.Commit) != 40 {
			return at.in(i, "commit").fault("got %q, want a full commit of 40 hex digits", s.Commit)
		}
	}
	return nil
}

func checkCorpora(p schemas.Policy) error {
	at := place{"calibrated", "corpora"}
	if len(p.Calibrated.Corpora) == 0 {
		return at.fault("empty; name the texts by digest")
	}
	for i, c := range p.Calibrated.Corpora {
		if !slices.Contains(p.Licences, c.Licence) {
			return at.in(i, "licence").fault("the licence %q is not one that the policy allows (%s)", c.Licence, strings.Join(p.Licences, ", "))
		}
	}
	return needSigner(p, "calibrated", "calibrate")
}
