package isolation

import (
	"slices"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/schemas"
)

func TestWhatProvesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Try)
		says   string
	}{
		"it succeeded":             {func(t *Try) { t.Inside = "connected" }, "succeeded inside"},
		"a time-out":               {func(t *Try) { t.Inside = "timeout" }, "proves nothing"},
		"nothing came back":        {func(t *Try) { t.Inside = "" }, "proves nothing"},
		"words without an errno":   {func(t *Try) { t.Inside = "no errno: broken" }, "proves nothing"},
		"another errno":            {func(t *Try) { t.Inside = "EIO" }, "proves nothing"},
		"refused outside before":   {func(t *Try) { t.Before = "ECONNREFUSED" }, "the control failed"},
		"refused outside after":    {func(t *Try) { t.After = "ECONNREFUSED" }, "the control failed"},
		"not tried outside":        {func(t *Try) { t.Before, t.After = "", "" }, "the control failed"},
		"no control at all":        {func(t *Try) { t.Control = false }, "no try succeeded outside"},
		"a kind that nobody knows": {func(t *Try) { t.Kind = "telepathy" }, "no kind of try"},
	} {
		t.Run(name, func(t *testing.T) {
			e := Sample()
			c.change(&e.Tries[0])
			s := ShownBy(e)[0]
			if s.Attribute != schemas.NetworkIsDenied || s.Shown || !strings.Contains(s.Statement, c.says) {
				t.Errorf("got %+v, want it not shown because %q", s, c.says)
			}
		})
	}
	for _, s := range ShownBy(Sample()) {
		if !s.Shown {
			t.Errorf("the sample: %s: %s", s.Attribute, s.Statement)
		}
	}
	for _, s := range ShownBy(Examination{}) {
		if s.Shown {
			t.Errorf("%s is shown without a try", s.Attribute)
		}
	}
}

func TestEveryMethodHasItsLimitsSaid(t *testing.T) {
	for _, m := range BoxMethods {
		if len(NotDenied(m)) == 0 || !slices.Contains(Gives(m), schemas.ComputationWorks) {
			t.Errorf("%s: got %v, %v", m, NotDenied(m), Gives(m))
		}
	}
	if len(Gives(Bubblewrap)) != len(schemas.BoxAttributes()) {
		t.Errorf("bubblewrap gives %v", Gives(Bubblewrap))
	}
}

// FuzzShownBy holds the judgement to its rule, whatever a child answers: what
// succeeded, timed out or has no control is never shown.
func FuzzShownBy(f *testing.F) {
	f.Add(uint8(0), "ECONNREFUSED", "connected", "connected", true)
	f.Add(uint8(1), "timeout", "connected", "connected", true)
	f.Add(uint8(3), "ran", "ran", "ran", true)
	f.Add(uint8(12), "65534", "", "", false)
	f.Fuzz(func(t *testing.T, at uint8, inside, before, after string, control bool) {
		e := Sample()
		i := int(at) % len(e.Tries)
		try := &e.Tries[i]
		try.Inside, try.Before, try.After, try.Control = inside, before, after, control
		k := kinds[try.Kind]
		may := try.Want != "" && inside == try.Want ||
			try.Want == "" && control && before == k.open && after == k.open && inside != k.open && slices.Contains(k.refused, inside)
		for _, s := range ShownBy(e) {
			if want := may || s.Attribute != try.Attribute; s.Shown != want {
				t.Errorf("%s with %+v: got %v, want %v: %s", s.Attribute, *try, s.Shown, want, s.Statement)
			}
		}
	})
}
