package policy_test

import (
	"testing"
	"time"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

// placed gives each claim its place and the moment base + index hours.
func placed(s *policytest.Signed) map[godigest.Digest]policy.Place {
	places := map[godigest.Digest]policy.Place{}
	for i, c := range s.Claims {
		places[c.Bundle()] = policy.Place{Index: int64(i), Appended: policytest.Now.Add(time.Duration(i-200) * time.Hour)}
	}
	return places
}

// TestAnOldWordIsNotTheNewestBecauseItWasImportedToday imports an acceptance
// that another log had before this log's refusal: the refusal stays the newest.
func TestAnOldWordIsNotTheNewestBecauseItWasImportedToday(t *testing.T) {
	w := newWorld(t)
	w.Add(t, "", policytest.Summary("refused", "FAILED", nil), policytest.Summary("elsewhere", "PASSED", nil))
	s := w.Sign(t)
	s.Places = placed(s)
	check(t, decide(t, w, s.Evidence, policy.Deliver), schemas.Passed)
	bundle := s.Claim(t, "elsewhere").Bundle()
	for _, c := range []struct {
		name string
		at   time.Time
		want schemas.Verdict
	}{
		{"before the refusal", s.Places[s.Claim(t, "refused").Bundle()].Appended.Add(-time.Minute), schemas.Failed},
		{"after the refusal", s.Places[s.Claim(t, "refused").Bundle()].Appended.Add(time.Minute), schemas.Passed},
	} {
		place := s.Places[bundle]
		place.Appended, place.Imported = c.at, true
		s.Places[bundle] = place
		if d := decide(t, w, s.Evidence, policy.Deliver); d.Verdict != c.want {
			t.Errorf("%s: %s, want %s", c.name, d.Verdict, c.want)
		}
	}
}

// TestInOrder keeps the log's own order whatever its clock said, and puts each
// imported claim where it was said.
func TestInOrder(t *testing.T) {
	s := newWorld(t).Sign(t)
	claims := s.Claims[:6]
	at := func(hour int) time.Time { return time.Date(2026, 1, 2, hour, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		name     string
		hours    [6]int // of appending, as each log says
		imported [6]bool
		want     [6]int
	}{
		{"nothing imported", [6]int{1, 2, 3, 4, 5, 6}, [6]bool{}, [6]int{0, 1, 2, 3, 4, 5}},
		{"the clock went back", [6]int{5, 6, 1, 2, 7, 3}, [6]bool{}, [6]int{0, 1, 2, 3, 4, 5}},
		{"two from before", [6]int{4, 5, 6, 1, 2, 7}, [6]bool{3: true, 4: true}, [6]int{3, 4, 0, 1, 2, 5}},
		{"one from between", [6]int{1, 5, 6, 3, 7, 8}, [6]bool{3: true}, [6]int{0, 3, 1, 2, 4, 5}},
		{"of the same second, after", [6]int{1, 5, 6, 5, 7, 8}, [6]bool{3: true}, [6]int{0, 1, 3, 2, 4, 5}},
		{"imported out of order", [6]int{5, 4, 3, 2, 6, 7}, [6]bool{1: true, 2: true, 3: true}, [6]int{3, 2, 1, 0, 4, 5}},
		{"one from before, where the clock went back", [6]int{5, 6, 1, 4, 7, 8}, [6]bool{3: true}, [6]int{3, 0, 1, 2, 4, 5}},
	} {
		places := map[godigest.Digest]policy.Place{}
		for i, claim := range claims {
			places[claim.Bundle()] = policy.Place{Index: int64(i), Appended: at(c.hours[i]), Imported: c.imported[i]}
		}
		got := policy.InOrder(claims, places)
		for i, want := range c.want {
			if got[i].Bundle() != claims[want].Bundle() {
				t.Errorf("%s: place %d is not claim %d", c.name, i, want)
			}
		}
	}
}
