package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
)

// Evidence is what a decision may look at. The order of the slices says
// nothing where Places are given, and a claim that is there twice counts once.
type Evidence struct {
	// Claims are in log order where Places is nil; in any order where it is not.
	Claims []attest.Claim
	// Objects are evidence objects by digest; each is hashed before it is believed.
	Objects map[godigest.Digest][]byte
	// Places tell where in the log each claim lies, by bundle digest. Nil means
	// that nobody knows, and that Claims are in log order already; where there are
	// any, a claim without a place makes the question an error.
	Places map[godigest.Digest]Place
	// Size is how many entries the log has, as a checkpoint vouches; 0 when nobody knows.
	Size int64
	// Witnesses are the verified cosignatures of that checkpoint.
	Witnesses []Cosignature
}

// Place is where a claim lies in the log, and when the log took it in.
type Place struct {
	Index    int64     // from 0
	Appended time.Time // zero when unknown
	// Imported says that Appended is the word of another log, from which the
	// claim was imported later than that.
	Imported bool
}

// Cosignature is a witness's word for a checkpoint, verified. Name is the
// witness's in the trust file; one key has one name.
type Cosignature struct {
	Name string
	Time time.Time
}

// ordered gives the evidence with its claims in log order, each once.
func (ev Evidence) ordered() (Evidence, error) {
	seen := map[godigest.Digest]bool{}
	var claims []attest.Claim
	for _, c := range ev.Claims {
		if !c.Valid() {
			return ev, fmt.Errorf("evidence: a claim that no verifier made")
		}
		if _, ok := ev.Places[c.Bundle()]; ev.Places != nil && !ok {
			return ev, fmt.Errorf("evidence: claim %s has no place in the log; give every claim one, or none", c.PAE())
		}
		if !seen[c.Bundle()] {
			seen[c.Bundle()] = true
			claims = append(claims, c)
		}
	}
	if ev.Places != nil {
		claims = InOrder(claims, ev.Places)
	}
	ev.Claims = claims
	return ev, nil
}

// InOrder puts claims into the order in which they were said, so that the last
// is the newest word: the order of the log, and each imported one before the
// first of the log's own that was appended after the other log had it. An old
// word does not become the newest because it was imported today, nor because it
// was appended again in another bundle, nor because whoever hands the evidence
// over leaves out that it was imported: good news is never newer than its first
// bundle and than what it says itself. Bad news of another log is never older
// than what it says itself, whatever that log says.
func InOrder(claims []attest.Claim, places map[godigest.Digest]Place) []attest.Claim {
	claims = slices.Clone(claims)
	slices.SortStableFunc(claims, func(a, b attest.Claim) int {
		return cmp.Or(cmp.Compare(places[a.Bundle()].Index, places[b.Bundle()].Index), cmp.Compare(a.Bundle(), b.Bundle()))
	})
	type word struct {
		at    time.Time
		index int // in the log's own order
	}
	type said struct {
		pae         godigest.Digest
		functionary string
	}
	words := make(map[godigest.Digest]word, len(claims))
	first := make(map[said]word, len(claims))
	var latest time.Time // a clock that went back does not change the log's own order
	for i, c := range claims {
		place := places[c.Bundle()]
		if !place.Imported {
			if place.Appended.After(latest) {
				latest = place.Appended
			}
			place.Appended = latest
		}
		w := word{place.Appended, i}
		switch at, bad := Spoken(c); {
		case bad:
			if place.Imported && at.After(w.at) {
				w.at = at
			}
		default:
			if !at.IsZero() && at.Before(w.at) {
				w.at = at
			}
			key := said{c.PAE(), c.Functionary()}
			if earlier, again := first[key]; again {
				w.index = earlier.index
				if earlier.at.Before(w.at) {
					w.at = earlier.at
				}
			}
			first[key] = w
		}
		words[c.Bundle()] = w
	}
	for _, c := range claims {
		if w, ok := first[said{c.PAE(), c.Functionary()}]; ok {
			words[c.Bundle()] = w
		}
	}
	slices.SortStableFunc(claims, func(a, b attest.Claim) int {
		x, y := words[a.Bundle()], words[b.Bundle()]
		return cmp.Or(x.at.Compare(y.at), cmp.Compare(x.index, y.index))
	})
	return claims
}

// whole tells whether every entry of the log is among the claims: then nothing can have been left out.
func (ev Evidence) whole() bool {
	at := map[int64]bool{}
	for _, c := range ev.Claims {
		if p, ok := ev.Places[c.Bundle()]; ok && p.Index >= 0 && p.Index < ev.Size {
			at[p.Index] = true
		}
	}
	return ev.Size > 0 && int64(len(at)) == ev.Size
}
