// Package keys makes, stores and reads signing keys: ECDSA P-256, ECDSA P-384
// and Ed25519, in PEM as cosign and the other Sigstore tools write it, encrypted
// with a password (scrypt and NaCl secretbox) unless the caller insists. It also
// reads PKCS #8, plain and encrypted (RFC 5958; PBES2 of RFC 8018).
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
	ECDSA     = "ecdsa-p256" // the default
	ECDSAP384 = "ecdsa-p384"
	Ed25519   = "ed25519"
)

// PEM types.
const (
	typeSigstore = "ENCRYPTED SIGSTORE PRIVATE KEY"
	typeCosign   = "ENCRYPTED COSIGN PRIVATE KEY" // written by cosign before 2.0
	typePlain    = "PRIVATE KEY"
	typePKCS8    = "ENCRYPTED PRIVATE KEY"
	typeSEC1     = "EC PRIVATE KEY" // refused: it may be encrypted in OpenSSL's own way, by MD5
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
	case ECDSAP384:
		return ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case Ed25519:
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}
	return nil, fmt.Errorf("key algorithm: got %q, want %s, %s or %s", algorithm, ECDSA, ECDSAP384, Ed25519)
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
// PKCS #8, plain or encrypted. Anything but one block, and keys of other kinds,
// are refused. The password is overwritten after use.
func Load(doc []byte, password Password) (crypto.Signer, error) {
	key, err := load(doc, password)
	if err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("private key: got %T, want %s", key, wantKinds)
	}
	if err := supported(signer); err != nil {
		return nil, err
	}
	return signer, nil
}

func load(doc []byte, password Password) (any, error) {
	block, err := oneBlock(doc)
	if err != nil {
		return nil, err
	}
	switch block.Type {
	case typeSigstore, typeCosign:
		der, err := open(block.Bytes, password)
		if err != nil {
			return nil, err
		}
		defer clear(der)
		return x509.ParsePKCS8PrivateKey(der)
	case typePlain:
		return x509.ParsePKCS8PrivateKey(block.Bytes)
	case typePKCS8:
		return openPKCS8(block.Bytes, password)
	}
	hint := ""
	if block.Type == typeSEC1 {
		hint = "; convert it with openssl pkcs8 -topk8"
	}
	return nil, fmt.Errorf("got a PEM block %.60q, want %q, %q or %q%s", block.Type, typeSigstore, typePlain, typePKCS8, hint)
}

// EncodePublic writes a public key in PEM (PKIX).
func EncodePublic(pub crypto.PublicKey) ([]byte, error) {
	return cryptoutils.MarshalPublicKeyToPEM(pub)
}

// LoadPublic reads one public key in PEM (PKIX) that [CheckPublic] takes.
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
	if err := CheckPublic(pub); err != nil {
		return nil, err
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

// supported holds a private key to the kinds of [CheckPublic].
func supported(key crypto.Signer) error {
	if err := CheckPublic(key.Public()); err != nil {
		return fmt.Errorf("private key: %w", err)
	}
	return nil
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

// open decrypts what the Sigstore tools and [seal] write. The library takes
// three sets of scrypt parameters and no other, so that a file cannot ask for
// work: N 2^15, 2^16 or 2^17, r 8, p 1, at most 128 MiB.
func open(box []byte, password Password) ([]byte, error) {
	word, err := ask(password)
	if err != nil {
		return nil, err
	}
	defer clear(word)
	secret, err := encrypted.Decrypt(box, word)
	if err != nil {
		return nil, fmt.Errorf("wrong password or damaged file: %w", err)
	}
	return secret, nil
}

// ask gets the password of an encrypted file.
func ask(password Password) ([]byte, error) {
	if password == nil {
		return nil, errors.New("it is encrypted, and no password was given")
	}
	return password()
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
		return nil, errors.New("got a PEM block with headers, want none; convert it with openssl pkcs8 -topk8")
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("got %d bytes behind the PEM block, want none", len(rest))
	}
	return block, nil
}
