package ledger_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	formatproof "github.com/transparency-dev/formats/proof"
	"golang.org/x/mod/sumdb/note"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/storetest"
)

// forkOf makes a log with the same key and other entries.
func forkOf(t *testing.T, n int) []byte {
	t.Helper()
	log := inMemory().create(t)
	for i := range n {
		if _, err := log.Append(t.Context(), storetest.Bundle(fmt.Sprint("fork", i), []string{"x"}, nil)); err != nil {
			t.Fatal(err)
		}
	}
	msg, err := log.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

// TestForkProof: a checkpoint from elsewhere that cannot hold beside ours is a
// contradiction; of one size, with both notes, which alone prove it.
func TestForkProof(t *testing.T) {
	s := inMemory()
	log := s.create(t)
	chain(t, log, 6)
	verifier := s.options(t).Verifier
	for _, c := range []struct {
		size int
		both bool
	}{{1, true}, {5, true}, {6, true}, {9, false}} {
		given := forkOf(t, c.size)
		_, err := log.Compare(t.Context(), given)
		var lied *ledger.Contradiction
		if !errors.As(err, &lied) || !bytes.Equal(lied.Signed, given) || (lied.Other != nil) != c.both {
			t.Errorf("size %d: %v, want a contradiction that carries the given checkpoint, and ours: %v", c.size, err, c.both)
			continue
		}
		if !c.both {
			continue
		}
		// The proof needs nothing but the log's key.
		a, errA := ledger.ParseCheckpoint(lied.Signed, verifier)
		b, errB := ledger.ParseCheckpoint(lied.Other, verifier)
		if errA != nil || errB != nil || a.Size != b.Size || a.Root == b.Root {
			t.Errorf("size %d: %+v, %v, %+v, %v: no proof", c.size, a, errA, b, errB)
		}
	}
	honest, err := s.checkpoints.At(t.Context(), 4)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := log.Compare(t.Context(), honest); err != nil || got.Size != 4 {
		t.Errorf("%+v, %v, want our own older checkpoint to hold", got, err)
	}
}

// TestPinnedIdentity: what makes a checkpoint this log's is its origin, the name
// of the key and the key together.
func TestPinnedIdentity(t *testing.T) {
	text := "%s\n1\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n"
	signed := func(origin string, signer note.Signer) []byte {
		t.Helper()
		msg, err := note.Sign(&note.Note{Text: fmt.Sprintf(text, origin)}, signer)
		if err != nil {
			t.Fatal(err)
		}
		return msg
	}
	signer, verifier := storetest.Keys(t, storetest.Origin, 1)
	otherKey, otherVerifier := storetest.Keys(t, storetest.Origin, 2)
	elsewhere, _ := storetest.Keys(t, "log.example/elsewhere", 1)
	if otherVerifier.KeyHash() == verifier.KeyHash() {
		t.Fatal("two keys have one hash")
	}
	if _, err := ledger.ParseCheckpoint(signed(storetest.Origin, signer), verifier); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		msg  []byte
		want string
	}{
		{"another origin under our key", signed("log.example/elsewhere", signer), `of the log "log.example/elsewhere"`},
		{"our origin under another log's key", signed(storetest.Origin, elsewhere), "not signed by log.example/test"},
		{"our name with another key", signed(storetest.Origin, otherKey), fmt.Sprintf("key hash %08x", verifier.KeyHash())},
		{"another key that claims our key's hash", signed(storetest.Origin, liar{otherKey, verifier.KeyHash()}), "invalid signature"},
	} {
		if _, err := ledger.ParseCheckpoint(c.msg, verifier); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	// A log is not opened under another identity either.
	s := inMemory()
	s.create(t)
	opt := s.options(t)
	opt.Origin = "log.example/elsewhere"
	if _, err := ledger.Open(t.Context(), s.store, opt); err == nil || !strings.Contains(err.Error(), `named "log.example/test"`) {
		t.Errorf("%v, want another origin refused", err)
	}
	opt = s.options(t)
	opt.Signer, opt.Verifier = otherKey, otherVerifier
	var bad *ledger.CheckpointError
	if _, err := ledger.Open(t.Context(), s.store, opt); !errors.As(err, &bad) {
		t.Errorf("%v, want another key of the same name refused", err)
	}
	opt.Verifier = verifier
	if _, err := ledger.Open(t.Context(), s.store, opt); err == nil || !strings.Contains(err.Error(), "the signing key is") {
		t.Errorf("%v, want two keys that do not belong together refused", err)
	}
}

// TestProofsOfOtherImplementations: a tlog-proof that transparency-dev/formats
// writes is read as what it is.
func TestProofsOfOtherImplementations(t *testing.T) {
	log := inMemory().create(t)
	entries := chain(t, log, 11)
	_, verifier := storetest.Keys(t, storetest.Origin, 1)
	for _, e := range entries {
		ours, err := log.Prove(t.Context(), e.Index, nil)
		if err != nil {
			t.Fatal(err)
		}
		var p formatproof.TLogProof
		if err := p.Unmarshal(ours); err != nil {
			t.Fatal(err)
		}
		theirs := p.Marshal()
		if !bytes.Equal(theirs, ours) {
			t.Errorf("entry %d: they write %q and we %q", e.Index, theirs, ours)
		}
		if _, err := ledger.VerifyProof(theirs, e.Leaf, verifier); err != nil {
			t.Errorf("entry %d: %v", e.Index, err)
		}
		// An extra line is theirs to write and nobody's to believe.
		p.ExtraData = []byte("trust me")
		if _, err := ledger.VerifyProof(p.Marshal(), e.Leaf, verifier); err == nil || !strings.Contains(err.Error(), "nothing authenticates it") {
			t.Errorf("entry %d: %v, want the extra line refused", e.Index, err)
		}
	}
}

// liar signs under another key's hash.
type liar struct {
	note.Signer
	hash uint32
}

func (l liar) KeyHash() uint32 { return l.hash }
