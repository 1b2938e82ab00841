package modelsigning

import (
	"context"
	"crypto"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/sigstore"
)

// Signature is a model signature that verified.
type Signature struct {
	Manifest    Manifest
	Functionary string          // whom the trust file names
	Key         godigest.Digest // of the key that signed
	SignedAt    time.Time       // the earliest vouched time; zero without one
}

// Verify verifies a model signature by a local key or a keyless identity. v
// decides whose word counts; pubs are the keys it knows, since the format names
// them in a way of its own. at is the moment at which keys must be valid when
// nobody vouches for another. Errors are *attest.VerificationError.
//
// A verified signature says what the model must be; [Manifest.Compare] says
// whether it is.
func Verify(ctx context.Context, bundle []byte, v attest.Verifier, pubs []crypto.PublicKey, at time.Time) (Signature, error) {
	names := map[string]string{}
	for _, pub := range pubs {
		theirs, err := pemHint(pub)
		if err != nil {
			return Signature{}, err
		}
		if names[theirs], err = sigstore.Hint(pub); err != nil {
			return Signature{}, err
		}
	}
	renamed, err := withHint(bundle, func(hint string) string {
		if ours, ok := names[hint]; ok {
			return ours
		}
		return hint
	})
	if err != nil {
		return Signature{}, err
	}
	claim, err := v.Verify(ctx, renamed, at)
	if err != nil {
		return Signature{}, err
	}
	m, err := readManifest(claim.Statement(), claim.Predicate())
	if err != nil {
		return Signature{}, err
	}
	return Signature{Manifest: m, Functionary: claim.Functionary(), Key: claim.Key(), SignedAt: claim.SignedAt()}, nil
}

// withHint replaces the hint of a bundle's public key. Nothing of it is signed:
// it says only which key to try. Bundles of model-signing before 1.1 carry the
// whole key instead (section 11.2), of which the hint is the digest.
func withHint(bundle []byte, replace func(string) string) ([]byte, error) {
	if len(bundle) > attest.MaxBundleBytes {
		return nil, refuse(attest.CheckSize, "", fmt.Sprintf("a bundle of %d bytes", len(bundle)), fmt.Sprintf("at most %d", attest.MaxBundleBytes))
	}
	if err := attest.CheckJSON(bundle); err != nil {
		return nil, notABundle(err)
	}
	var top, material, public map[string]json.RawMessage
	if err := json.Unmarshal(bundle, &top); err != nil {
		return nil, notABundle(err)
	}
	if json.Unmarshal(top["verificationMaterial"], &material) != nil || material["publicKey"] == nil {
		return bundle, nil // no key: the verifier says what it thinks of that
	}
	if err := json.Unmarshal(material["publicKey"], &public); err != nil {
		return nil, notABundle(err)
	}
	var hint, raw string
	for key, to := range map[string]*string{"hint": &hint, "rawBytes": &raw} {
		if doc := public[key]; doc != nil {
			if err := json.Unmarshal(doc, to); err != nil {
				return nil, notABundle(err)
			}
		}
	}
	if hint == "" && raw != "" {
		doc, err := base64.StdEncoding.DecodeString(raw)
		if err != nil {
			return nil, notABundle(err)
		}
		sum := sha256.Sum256(doc)
		hint = hex.EncodeToString(sum[:])
	}
	for _, step := range []struct {
		key  string
		into map[string]json.RawMessage
		from any
	}{
		{"publicKey", material, map[string]string{"hint": replace(hint)}},
		{"verificationMaterial", top, material},
	} {
		doc, err := json.Marshal(step.from)
		if err != nil {
			return nil, err
		}
		step.into[step.key] = doc
	}
	doc, err := json.Marshal(top)
	if err != nil {
		return nil, err
	}
	return jsoncanonicalizer.Transform(doc)
}

func notABundle(err error) error {
	return &attest.VerificationError{Check: attest.CheckBundle, Got: "other bytes", Want: "a Sigstore bundle in JSON", Err: err}
}
