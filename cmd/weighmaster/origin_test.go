package main

import (
	"testing"
	"time"

	godigest "github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/note"

	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/imported"
	"github.com/weighmaster/weighmaster/ledger/memory"
	"github.com/weighmaster/weighmaster/schemas"
)

// Whoever may write into a project's folder, and has no key, can put another
// log's proof there: that log copied the entry later, and makes it no newer.
func TestALaterCopyInAnotherLogIsNoOrigin(t *testing.T) {
	bundle := []byte("{}")
	appended := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var leaves []ledger.Leaf
	p := &project{trust: schemas.Trust{Log: schemas.LogKey{Origin: "example.com/own"}}, imported: imported.Open(t.TempDir())}
	for i, origin := range []string{"example.com/own", "example.com/before", "example.com/after"} {
		secret, public, err := keys.GenerateLogKey(origin)
		if err != nil {
			t.Fatal(err)
		}
		signer, err := note.NewSigner(secret)
		if err != nil {
			t.Fatal(err)
		}
		key, err := note.NewVerifier(public)
		if err != nil {
			t.Fatal(err)
		}
		at := appended.Add([]time.Duration{0, -time.Hour, time.Hour}[i])
		log, err := ledger.Create(t.Context(), memory.NewStore(), ledger.Options{
			Origin: origin, Signer: signer, Verifier: key, Checkpoints: memory.NewCheckpoints(), Now: func() time.Time { return at },
			Index: func([]byte) (ledger.Index, error) {
				return ledger.Index{PAE: godigest.FromString("what was signed"), PredicateType: "example"}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		entry, err := log.Append(t.Context(), bundle)
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, entry.Leaf)
		if i == 0 {
			continue
		}
		p.trust.Logs = append(p.trust.Logs, schemas.LogKey{Origin: origin, Key: public})
		checkpoint, err := log.Checkpoint(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		proof, err := log.Prove(t.Context(), 0, checkpoint)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.imported.Log(origin).Keep(t.Context(), 1, checkpoint, []imported.Entry{{Leaf: entry.Leaf, Proof: proof}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		keep []string
		want string
	}{
		{"copied later", []string{"example.com/after"}, "example.com/own"},
		{"had before", []string{"example.com/before"}, "example.com/before"},
		{"both", []string{"example.com/after", "example.com/before"}, "example.com/before"},
	} {
		p.others = []*imported.Log{}
		for _, origin := range c.keep {
			p.others = append(p.others, p.imported.Log(origin))
		}
		if got, _, err := p.origin(leaves[0]); err != nil || got != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.name, got, err, c.want)
		}
	}
}
