package verify_test

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/weighmaster/weighmaster/fixtures"
	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/witness/witnesstest"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

// A policy may demand witnesses of the checkpoint; only verified cosignatures by
// witnesses of the trust file count.
func TestDemandedWitnesses(t *testing.T) {
	witness, stranger := witnesstest.NewKey("witness.example/w1", 1), witnesstest.NewKey("witness.example/w2", 2)
	demanding := strings.NewReplacer(
		"\nsigners:", "\nwitnesses: {names: [witness.example/w1], threshold: 1}\nsigners:",
		"completed, notices, standing]", "completed, notices, standing, witnesses]",
	).Replace(fixtures.Policy)
	trusted, err := ledger.ParseWitnessKeys(witness.String())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cosign  func([]byte) []byte
		trusted []note.Verifier
		whole   schemas.Verdict
		check   string
		words   []string
	}{
		"a witness":              {func(b []byte) []byte { return witness.Cosign(b, policytest.Now) }, trusted, schemas.Passed, "witnesses", []string{"witness.example/w1"}},
		"a witness, counted":     {func(b []byte) []byte { return witness.Cosign(b, policytest.Now) }, trusted, schemas.Passed, "checkpoint", []string{"1 of 1 witnesses"}},
		"none":                   {func(b []byte) []byte { return b }, trusted, schemas.Undecided, "witnesses", nil},
		"a stranger":             {func(b []byte) []byte { return stranger.Cosign(b, policytest.Now) }, trusted, schemas.Undecided, "witnesses", nil},
		"one whom nobody trusts": {func(b []byte) []byte { return witness.Cosign(b, policytest.Now) }, nil, schemas.Undecided, "witnesses", nil},
		"over another checkpoint": {func(b []byte) []byte {
			other, _ := newLog(t, origin)
			msg, err := other.Checkpoint(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			cosigned := witness.Cosign(msg, policytest.Now)
			return append(b, cosigned[len(msg):]...)
		}, trusted, schemas.Failed, "checkpoint", []string{"cosignature"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := deliver(t, policytest.New(t, demanding))
			d.Package.Checkpoint = c.cosign(d.Package.Checkpoint)
			d.Witnesses, d.At = c.trusted, policytest.Now.Add(time.Hour)
			want(t, d.verify(t), c.whole, c.check, c.whole, c.words...)
		})
	}
}
