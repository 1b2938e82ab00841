package isolation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/schemas"
)

// Shown is what a probe says of one attribute.
type Shown struct {
	Attribute string
	Shown     bool
	// Statement is how it was refused, e.g. "4 tries: ENETUNREACH, ECONNREFUSED"; why not, when it is not shown.
	Statement string
}

// ShownBy judges an examination: every attribute in the order of
// [schemas.BoxAttributes]. An attribute is shown when each of its tries was
// refused inside by an errno that denies, and each control succeeded outside
// before and after. A time-out denies nothing, and an attribute without a try is not shown.
func ShownBy(e Examination) []Shown {
	list := make([]Shown, 0, len(schemas.BoxAttributes()))
	for _, a := range schemas.BoxAttributes() {
		list = append(list, judge(e, a))
	}
	return list
}

func judge(e Examination, attribute string) Shown {
	no := func(format string, args ...any) Shown {
		return Shown{Attribute: attribute, Statement: fmt.Sprintf(format, args...)}
	}
	var results []string
	tries, controls, states := 0, 0, 0
	for _, t := range e.Tries {
		if t.Attribute != attribute {
			continue
		}
		tries++
		k, ok := kinds[t.Kind]
		switch {
		case !ok:
			return no("%s: there is no kind of try %q", t.What, t.Kind)
		case t.Want != "":
			states++
			if t.Inside != t.Want {
				return no("%s: got %q inside the box, want %q", t.What, t.Inside, t.Want)
			}
		case k.open == "":
			return no("%s: nothing says what is wanted", t.What)
		case t.Control && (t.Before != k.open || t.After != k.open):
			return no("%s: the control failed: outside the box it gave %q and %q, want %q before and after", t.What, t.Before, t.After, k.open)
		case t.Inside == k.open:
			return no("%s: it succeeded inside the box (%s)", t.What, t.Inside)
		case !slices.Contains(k.refused, t.Inside):
			return no("%s: got %q inside the box, which proves nothing; want one of %s", t.What, t.Inside, strings.Join(k.refused, ", "))
		}
		if t.Control {
			controls++
		}
		if !slices.Contains(results, t.Inside) {
			results = append(results, t.Inside)
		}
	}
	switch {
	case tries == 0:
		return no("nothing was tried")
	case controls == 0 && states < tries:
		return no("no try succeeded outside, so that a refusal inside proves nothing")
	case slices.Contains(needControl, attribute) && controls == 0:
		return no("nothing was tried outside")
	}
	words := "tries"
	if tries == 1 {
		words = "try"
	}
	return Shown{Attribute: attribute, Shown: true, Statement: fmt.Sprintf("%d %s, %d with a control outside: %s", tries, words, controls, strings.Join(results, ", "))}
}

// needControl are the attributes that a refusal shows; the others are read or work.
var needControl = []string{schemas.NetworkIsDenied, schemas.MetadataAddressIsDenied, schemas.CanaryUnreadable, schemas.ForeignBinaryDenied, schemas.HomesHidden, schemas.OtherModelsHidden,
	schemas.CredentialsAbsent, schemas.AgentSocketsAbsent, schemas.SourceReadOnly, schemas.PrivateTmp, schemas.PrivateProc, schemas.PrivateShm}
