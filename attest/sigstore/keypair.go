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

	commonpb "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	"github.com/sigstore/sigstore/pkg/cryptoutils"

	"github.com/weighmaster/weighmaster/attest/keys"
)

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

// keypair is a key as sigstore-go's sign package takes it.
type keypair struct {
	key       crypto.Signer
	public    crypto.PublicKey
	details   commonpb.PublicKeyDetails
	algorithm string
	hash      crypto.Hash // zero for Ed25519, which hashes by itself
	hint      string
}

func newKeypair(key crypto.Signer) (keypair, error) {
	pair := keypair{key: key, public: key.Public()}
	if err := keys.CheckPublic(pair.public); err != nil {
		return pair, err
	}
	switch pub := pair.public.(type) {
	case *ecdsa.PublicKey:
		pair.details, pair.algorithm, pair.hash = commonpb.PublicKeyDetails_PKIX_ECDSA_P256_SHA_256, "ECDSA", crypto.SHA256
		if pub.Curve == elliptic.P384() {
			pair.details, pair.hash = commonpb.PublicKeyDetails_PKIX_ECDSA_P384_SHA_384, crypto.SHA384
		}
	case ed25519.PublicKey:
		pair.details, pair.algorithm = commonpb.PublicKeyDetails_PKIX_ED25519, "ED25519"
	}
	var err error
	pair.hint, err = Hint(pair.public)
	return pair, err
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

func (k keypair) GetPublicKey() crypto.PublicKey { return k.public }

func (k keypair) GetPublicKeyPem() (string, error) {
	pem, err := cryptoutils.MarshalPublicKeyToPEM(k.public)
	return string(pem), err
}

// SignData returns the signature and what it is over: the digest, or the data
// itself for Ed25519. A key that signs messages, as one at a service does, is
// given the message.
func (k keypair) SignData(_ context.Context, data []byte) ([]byte, []byte, error) {
	sig, err := crypto.SignMessage(k.key, rand.Reader, data, k.hash)
	if k.hash != 0 {
		h := k.hash.New()
		h.Write(data)
		data = h.Sum(nil)
	}
	return sig, data, err
}
