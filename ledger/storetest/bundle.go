package storetest

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"testing"

	godigest "github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/note"

	"github.com/weighmaster/weighmaster/ledger"
)

// Origin is the identity of the logs that tests make.
const Origin = "log.example/test"

// PredicateType is the predicate type of the bundles that tests make.
const PredicateType = "https://example.com/predicate/v1"

// bundle stands for a signed bundle; the log reads bundles only through its
// Indexer.
type bundle struct {
	Payload      string       `json:"payload"`
	Predicate    string       `json:"predicate"`
	Subjects     []ledger.Ref `json:"subjects"`
	Dependencies []ledger.Ref `json:"dependencies"`
}

// Bundle makes a bundle that says that the artifacts named by made were made
// of those named by of. Equal arguments make equal bytes.
func Bundle(payload string, made, of []string) []byte {
	b, err := json.Marshal(bundle{payload, PredicateType, refs(made), refs(of)})
	if err != nil {
		panic(err)
	}
	return b
}

func refs(names []string) []ledger.Ref {
	var list []ledger.Ref
	for _, n := range names {
		list = append(list, ledger.Ref{Name: n, Digest: Digest(n)})
	}
	return list
}

// Digest is the digest of the artifact that a name stands for.
func Digest(name string) godigest.Digest { return godigest.FromString("artifact " + name) }

// Index reads what Bundle makes. It is a [ledger.Indexer].
func Index(data []byte) (ledger.Index, error) {
	var b bundle
	if err := json.Unmarshal(data, &b); err != nil {
		return ledger.Index{}, fmt.Errorf("not a bundle: %w", err)
	}
	return ledger.Index{
		PAE:           godigest.FromString("DSSEv1 " + b.Payload),
		PredicateType: b.Predicate,
		Subjects:      b.Subjects,
		Dependencies:  b.Dependencies,
	}, nil
}

// Keys derives a log's key pair from its origin and a number, so that several
// processes have the same.
func Keys(t testing.TB, origin string, number byte) (note.Signer, note.Verifier) {
	t.Helper()
	key := secretKey(origin, number)
	text := VerifierKey(t, origin, number)
	v, err := note.NewVerifier(text)
	if err != nil {
		t.Fatal(err)
	}
	return signer{key, v}, v
}

// VerifierKey is the public key of Keys as text.
func VerifierKey(t testing.TB, origin string, number byte) string {
	t.Helper()
	text, err := note.NewEd25519VerifierKey(origin, secretKey(origin, number).Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func secretKey(origin string, number byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	copy(seed, origin)
	seed[len(seed)-1] = number
	return ed25519.NewKeyFromSeed(seed)
}

type signer struct {
	key ed25519.PrivateKey
	note.Verifier
}

func (s signer) Sign(msg []byte) ([]byte, error) { return ed25519.Sign(s.key, msg), nil }
