// Package sigstore signs and verifies with sigstore-go: Statements in DSSE
// envelopes in Sigstore bundles v0.3, by local keys, or by certificate
// identities under a trusted root that is given. It never asks the network.
package sigstore

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	_ "crypto/sha256" // crypto.SHA256
	_ "crypto/sha512" // crypto.SHA384
	"encoding/base64"
	"fmt"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	commonpb "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	"github.com/sigstore/sigstore-go/pkg/sign"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/keys"
)

type signer struct{ pair keypair }

// NewSigner returns a signer with a local key of the kinds of
// [keys.CheckPublic]. Its
// bundles are RFC 8785 JSON, name the key by [Hint], and hold one signature.
// It refuses to sign a Statement that a verifier would refuse to read.
func NewSigner(key crypto.Signer) (attest.Signer, error) {
	pair := keypair{key: key}
	if err := keys.CheckPublic(key.Public()); err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	switch pub := key.Public().(type) {
	case *ecdsa.PublicKey:
		pair.details, pair.algorithm, pair.hash = commonpb.PublicKeyDetails_PKIX_ECDSA_P256_SHA_256, "ECDSA", crypto.SHA256
		if pub.Curve == elliptic.P384() {
			pair.details, pair.hash = commonpb.PublicKeyDetails_PKIX_ECDSA_P384_SHA_384, crypto.SHA384
		}
	case ed25519.PublicKey:
		pair.details, pair.algorithm = commonpb.PublicKeyDetails_PKIX_ED25519, "ED25519"
	}
	hint, err := Hint(key.Public())
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	pair.hint = hint
	return signer{pair}, nil
}

func (s signer) Sign(ctx context.Context, statement *attest.Statement) ([]byte, error) {
	payload, err := attest.Encode(statement)
	if err != nil {
		return nil, err
	}
	if _, _, err := attest.DecodeStatement(payload); err != nil {
		return nil, fmt.Errorf("this Statement is not signed, since verifiers would refuse it: %w", err)
	}
	b, err := sign.Bundle(&sign.DSSEData{Data: payload, PayloadType: attest.PayloadType}, s.pair, sign.BundleOptions{Context: ctx})
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", statement.GetPredicateType(), err)
	}
	body, err := protojson.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("sign %s: bundle: %w", statement.GetPredicateType(), err)
	}
	return jsoncanonicalizer.Transform(body) // protojson varies its white space on purpose
}

// Hint names a public key as sigstore's tools do: base64 of the sha256 of its
// DER (PKIX). A hint is not signed; it only says which key to try.
func Hint(pub crypto.PublicKey) (string, error) {
	digest, err := keys.Digest(pub)
	if err != nil {
		return "", err
	}
	sum, err := digestBytes(digest)
	return base64.StdEncoding.EncodeToString(sum), err
}

// keypair is a local key as sigstore-go's sign package takes it.
type keypair struct {
	key       crypto.Signer
	details   commonpb.PublicKeyDetails
	algorithm string
	hash      crypto.Hash // zero for Ed25519, which hashes by itself
	hint      string
}

func (k keypair) GetHashAlgorithm() commonpb.HashAlgorithm {
	if k.hash == crypto.SHA384 {
		return commonpb.HashAlgorithm_SHA2_384
	}
	return commonpb.HashAlgorithm_SHA2_256
}

func (k keypair) GetSigningAlgorithm() commonpb.PublicKeyDetails { return k.details }

func (k keypair) GetHint() []byte { return []byte(k.hint) }

func (k keypair) GetKeyAlgorithm() string { return k.algorithm }

func (k keypair) GetPublicKey() crypto.PublicKey { return k.key.Public() }

func (k keypair) GetPublicKeyPem() (string, error) {
	pem, err := cryptoutils.MarshalPublicKeyToPEM(k.key.Public())
	return string(pem), err
}

// SignData returns the signature and what it is over: the digest, or the data
// itself for Ed25519.
func (k keypair) SignData(_ context.Context, data []byte) ([]byte, []byte, error) {
	if k.hash != 0 {
		h := k.hash.New()
		h.Write(data)
		data = h.Sum(nil)
	}
	sig, err := k.key.Sign(rand.Reader, data, k.hash)
	return sig, data, err
}
