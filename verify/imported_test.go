package verify_test

import (
	"slices"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/weighmaster/weighmaster/fixtures"
	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/verify/evidence"
)

const otherOrigin = "example.com/other"

// imported says of every entry of a delivery that it was imported from another
// log, which has it, and which its reader believes.
func imported(t *testing.T, d *delivery) {
	t.Helper()
	other, key := newLog(t, otherOrigin)
	if _, err := other.AppendAll(t.Context(), d.Package.Bundles); err != nil {
		t.Fatal(err)
	}
	checkpoint, err := other.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range d.Package.Bundles {
		e, err := other.Entry(t.Context(), ledger.LeafIndex(i))
		if err != nil {
			t.Fatal(err)
		}
		proof, err := other.Prove(t.Context(), e.Index, checkpoint)
		if err != nil {
			t.Fatal(err)
		}
		d.Package.Index.Entries[i].Imported = &evidence.Imported{Origin: otherOrigin, Leaf: e.Leaf}
		d.Package.Vouched = append(d.Package.Vouched, proof)
	}
	d.Logs = []note.Verifier{key}
}

func TestAnotherLogsWordIsBound(t *testing.T) {
	d := deliver(t, policytest.New(t, fixtures.Policy))
	imported(t, d)
	d.Package = reread(t, d.Package)
	want(t, d.verify(t), schemas.Passed, "signatures", schemas.Passed)

	failed := schemas.Failed
	run(t, []tampering{
		{"the other log's proof of another entry", func(t *testing.T, d *delivery) {
			imported(t, d)
			slices.Reverse(d.Package.Vouched[:2])
		}, failed, "signatures", failed, []string{"imported from " + otherOrigin, "the proof is of another entry"}},
		{"the other log's entry of another bundle", func(t *testing.T, d *delivery) {
			imported(t, d)
			slices.Reverse(d.Package.Vouched[:2])
			a, b := d.Package.Index.Entries[0].Imported, d.Package.Index.Entries[1].Imported
			a.Leaf, b.Leaf = b.Leaf, a.Leaf
		}, failed, "signatures", failed, []string{"imported from " + otherOrigin + " as bundle", "which is another one"}},
		{"a proof that nobody whom the reader believes signed", func(t *testing.T, d *delivery) {
			imported(t, d)
			_, stranger := newLog(t, otherOrigin)
			d.Logs = []note.Verifier{stranger}
		}, failed, "signatures", failed, []string{"imported from " + otherOrigin, "checkpoint is not signed by " + otherOrigin}},
	})
}
