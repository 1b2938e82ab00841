// Package keys makes, stores and reads signing keys: ECDSA P-256 and Ed25519,
// in PEM as cosign and the other Sigstore tools write it, encrypted with a
// password (scrypt and NaCl secretbox) unless the caller insists.
package keys

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	godigest "github.com/opencontainers/go-digest"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
)

// Algorithms of signing keys.
const (
	ECDSA   = "ecdsa-p256" // the default
	Ed25519 = "ed25519"
)

// PEM types.
const (
	typeSigstore = "ENCRYPTED SIGSTORE PRIVATE KEY"
	typeCosign   = "ENCRYPTED COSIGN PRIVATE KEY" // written by cosign before 2.0
	typePlain    = "PRIVATE KEY"
	typePublic   = "PUBLIC KEY"
	typeLog      = "ENCRYPTED WEIGHMASTER LOG KEY"
	typePlainLog = "WEIGHMASTER LOG KEY"
)

// maxPEM bounds a key file, in bytes.
const maxPEM = 64 << 10

// Password asks for a password. It is called only when one is needed.
type Password func() ([]byte, error)

// Generate makes a signing key.
func Generate(algorithm string) (crypto.Signer, error) {
	switch algorithm {
	case ECDSA:
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case Ed25519:
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}
	return nil, fmt.Errorf("key algorithm: got %q, want %s or %s", algorithm, ECDSA, Ed25519)
}

// Encode writes a key in PEM, encrypted: the form that cosign reads. An empty
// password is refused.
func Encode(key crypto.Signer, password []byte) ([]byte, error) {
	der, err := marshal(key)
	if err != nil {
		return nil, err
	}
	return seal(typeSigstore, der, password)
}

// EncodePlain writes a key in PEM (PKCS #8) for everybody to read who can read
// the file. Only for users who insist.
func EncodePlain(key crypto.Signer) ([]byte, error) {
	der, err := marshal(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: typePlain, Bytes: der}), nil
}

// Load reads a private key in PEM: encrypted as the Sigstore tools write it, or
// plain PKCS #8. Anything but one block, and keys of other kinds, are refused.
func Load(doc []byte, password Password) (crypto.Signer, error) {
	block, err := oneBlock(doc)
	if err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	der := block.Bytes
	switch block.Type {
	case typeSigstore, typeCosign:
		if der, err = open(block.Bytes, password); err != nil {
			return nil, fmt.Errorf("private key: %w", err)
		}
	case typePlain:
	default:
		return nil, fmt.Errorf("private key: got a PEM block %q, want %q or %q", block.Type, typeSigstore, typePlain)
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("private key: got %T, want ECDSA P-256 or Ed25519", key)
	}
	return signer, supported(signer)
}

// EncodePublic writes a public key in PEM (PKIX).
func EncodePublic(pub crypto.PublicKey) ([]byte, error) {
	return cryptoutils.MarshalPublicKeyToPEM(pub)
}

// LoadPublic reads one public key in PEM (PKIX).
func LoadPublic(doc []byte) (crypto.PublicKey, error) {
	block, err := oneBlock(doc)
	if err != nil {
		return nil, fmt.Errorf("public key: %w", err)
	}
	if block.Type != typePublic {
		return nil, fmt.Errorf("public key: got a PEM block %q, want %q", block.Type, typePublic)
	}
	pub, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("public key: %w", err)
	}
	return pub, nil
}

// Digest identifies a public key: the sha256 of its DER (PKIX).
func Digest(pub crypto.PublicKey) (godigest.Digest, error) {
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return "", fmt.Errorf("public key: %w", err)
	}
	return godigest.FromBytes(der), nil
}

func marshal(key crypto.Signer) ([]byte, error) {
	if err := supported(key); err != nil {
		return nil, err
	}
	return x509.MarshalPKCS8PrivateKey(key)
}

func supported(key crypto.Signer) error {
	switch k := key.(type) {
	case *ecdsa.PrivateKey:
		if k.Curve == elliptic.P256() {
			return nil
		}
		return fmt.Errorf("private key: got ECDSA on %s, want P-256", k.Curve.Params().Name)
	case ed25519.PrivateKey:
		return nil
	}
	return fmt.Errorf("private key: got %T, want ECDSA P-256 or Ed25519", key)
}

func seal(blockType string, secret, password []byte) ([]byte, error) {
	if len(password) == 0 {
		return nil, errors.New("password: got none; give one, or ask for an unencrypted key")
	}
	box, err := encrypted.Encrypt(secret, password)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: blockType, Bytes: box}), nil
}

func open(box []byte, password Password) ([]byte, error) {
	if password == nil {
		return nil, errors.New("it is encrypted, and no password was given")
	}
	word, err := password()
	if err != nil {
		return nil, err
	}
	secret, err := encrypted.Decrypt(box, word)
	if err != nil {
		return nil, fmt.Errorf("wrong password or damaged file: %w", err)
	}
	return secret, nil
}

// oneBlock reads exactly one PEM block with nothing but white space around it.
func oneBlock(doc []byte) (*pem.Block, error) {
	if len(doc) > maxPEM {
		return nil, fmt.Errorf("got %d bytes, want at most %d", len(doc), maxPEM)
	}
	block, rest := pem.Decode(doc)
	if block == nil {
		return nil, errors.New("got no PEM block")
	}
	if len(block.Headers) > 0 {
		return nil, errors.New("got a PEM block with headers, want none")
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("got %d bytes behind the PEM block, want none", len(rest))
	}
	return block, nil
}
