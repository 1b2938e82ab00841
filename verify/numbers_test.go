package verify

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/weighmaster/weighmaster/policy"
)

// Every check has a number of its own and a heading in schemas/verify.md, in
// order; nothing else stands there.
func TestEveryCheckIsNumberedAndDescribed(t *testing.T) {
	byNumber := map[int]string{}
	for name, n := range numbers {
		if other, taken := byNumber[n]; taken {
			t.Errorf("checks %q and %q have the number %d", name, other, n)
		}
		byNumber[n] = name
	}
	for _, k := range checks {
		if n := numbers[k.name]; n < 1 || n > 19 {
			t.Errorf("check %q has the number %d, want 1 to 19", k.name, n)
		}
	}
	for _, rule := range policy.Rules() {
		if numbers[rule] < 20 {
			t.Errorf("rule %q has the number %d, want 20 or more", rule, numbers[rule])
		}
	}
	var want []string
	for _, n := range slices.Sorted(maps.Keys(byNumber)) {
		want = append(want, fmt.Sprintf("### %d %s", n, byNumber[n]))
	}
	body, err := os.ReadFile("../schemas/verify.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range regexp.MustCompile(`(?m)^### .*$`).FindAll(body, -1) {
		got = append(got, string(m))
	}
	if !slices.Equal(got, want) {
		t.Errorf("schemas/verify.md has the headings\n%q\nwant\n%q", got, want)
	}
}
