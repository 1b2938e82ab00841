package sigstore_test

import (
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	sigbundle "github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/attest/sigstore"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newKey(t testing.TB, algorithm string) crypto.Signer {
	t.Helper()
	key, err := keys.Generate(algorithm)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func statement(t testing.TB) *attest.Statement {
	t.Helper()
	sha := strings.Repeat("ab", 32)
	s, err := attest.NewStatement(
		[]*attest.ResourceDescriptor{{Name: "model.gguf", Digest: map[string]string{"sha256": sha}}},
		"https://example.org/said/v1", &structpb.Struct{Fields: map[string]*structpb.Value{"n": structpb.NewNumberValue(1)}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func signed(t testing.TB, key crypto.Signer) []byte {
	t.Helper()
	signer, err := sigstore.NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := signer.Sign(context.Background(), statement(t))
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

func trusting(t testing.TB, functionaries ...sigstore.Functionary) attest.Verifier {
	t.Helper()
	v, err := sigstore.NewVerifier(functionaries, sigstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// wantRefused asserts that a bundle was refused, and for what.
func wantRefused(t *testing.T, err error, check attest.Check, words string) {
	t.Helper()
	var refused *attest.VerificationError
	if !errors.As(err, &refused) {
		t.Fatalf("got error %v, want a *attest.VerificationError for %s", err, check)
	}
	if refused.Check != check || !strings.Contains(err.Error(), words) {
		t.Errorf("refused for %s: %v\nwant %s: …%s…", refused.Check, err, check, words)
	}
}

func TestSignedByALocalKey(t *testing.T) {
	for _, algorithm := range []string{keys.ECDSA, keys.ECDSAP384, keys.Ed25519} {
		t.Run(algorithm, func(t *testing.T) {
			key := newKey(t, algorithm)
			bundle := signed(t, key)
			claim, err := trusting(t, sigstore.Functionary{Name: "producer", PublicKey: key.Public()}).Verify(context.Background(), bundle, now)
			if err != nil {
				t.Fatal(err)
			}
			digest, err := keys.Digest(key.Public())
			if err != nil {
				t.Fatal(err)
			}
			if claim.Functionary() != "producer" || claim.Key() != digest || string(claim.Predicate()) != `{"n":1}` || !claim.SignedAt().IsZero() {
				t.Errorf("claim of %s by key %s with predicate %s, vouched %v", claim.Functionary(), claim.Key(), claim.Predicate(), claim.SignedAt())
			}
			pae, predicateType, subjects, _, err := attest.UnverifiedIndex(bundle)
			if err != nil || pae != claim.PAE() || predicateType != claim.PredicateType() || len(subjects) != 1 {
				t.Errorf("index: %s %s %v %v, want it to agree with the claim %s", pae, predicateType, subjects, err, claim.PAE())
			}
		})
	}
}

// The reading is sigstore-go's own, with nothing of ours between.
func TestSigstoreReadsOurBundle(t *testing.T) {
	key := newKey(t, keys.ECDSA)
	var b sigbundle.Bundle
	if err := b.UnmarshalJSON(signed(t, key)); err != nil {
		t.Fatal(err)
	}
	if version, err := b.Version(); err != nil || version != "v0.3" {
		t.Errorf("bundle version %s, %v; want v0.3", version, err)
	}
	read := func(pub crypto.PublicKey) error {
		v, err := signature.LoadDefaultVerifier(pub)
		if err != nil {
			t.Fatal(err)
		}
		material := root.NewTrustedPublicKeyMaterial(func(string) (root.TimeConstrainedVerifier, error) {
			return root.NewExpiringKey(v, time.Time{}, time.Time{}), nil
		})
		reader, err := verify.NewVerifier(material, verify.WithNoObserverTimestamps())
		if err != nil {
			t.Fatal(err)
		}
		result, err := reader.Verify(&b, verify.NewPolicy(verify.WithoutArtifactUnsafe(), verify.WithKey()))
		if err == nil && result.Statement.GetSubject()[0].GetName() != "model.gguf" {
			t.Errorf("sigstore-go read the subject %v", result.Statement.GetSubject())
		}
		return err
	}
	if err := read(key.Public()); err != nil {
		t.Error(err)
	}
	if err := read(newKey(t, keys.ECDSA).Public()); err == nil {
		t.Error("sigstore-go took the bundle for one by another key")
	}
}

// protoJSON gives a protobuf message as the JSON that bundles hold.
func protoJSON(t testing.TB, m proto.Message) json.RawMessage {
	t.Helper()
	body, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return body
}
