package isolation

import (
	"os"
	"slices"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/schemas"
)

// boxesHere are the ways to make a box that work on this machine.
func boxesHere(t *testing.T) []Method {
	t.Helper()
	var list []Method
	for _, m := range BoxMethods {
		if m != None && BoxWorks(m) == nil {
			list = append(list, m)
		}
	}
	if len(list) == 0 {
		shared.Missing(t, "no way to make a box works on this system")
	}
	return list
}

func shownOf(t *testing.T, e Examination) map[string]Shown {
	t.Helper()
	m := map[string]Shown{}
	for _, s := range ShownBy(e) {
		m[s.Attribute] = s
	}
	return m
}

func TestEveryBoxThatWorksHereShowsWhatItGives(t *testing.T) {
	for _, m := range boxesHere(t) {
		t.Run(string(m), func(t *testing.T) {
			e, err := Examine(t.Context(), newBench(t).profile(schemas.Box{Method: string(m)}))
			if err != nil {
				t.Fatal(err)
			}
			for a, s := range shownOf(t, e) {
				if gives := slices.Contains(Gives(m), a); gives && !s.Shown {
					t.Errorf("%s: %s", a, s.Statement)
				} else {
					t.Logf("uid %d: %s %v: %s", os.Getuid(), a, s.Shown, s.Statement)
				}
			}
		})
	}
}
