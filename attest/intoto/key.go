// Package intoto exports stage runs as classic in-toto metadata: one signed
// link for each run and one signed layout over them, in the Metablock form that
// every in-toto implementation verifies (in-toto specification 1.0, sections 4.2 to 4.4).
//
// Links are new statements: whoever exports signs them, and the layout names
// that key. They repeat what verified claims say; they never replace them.
package intoto

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/in-toto/in-toto-golang/in_toto"
	"github.com/secure-systems-lab/go-securesystemslib/cjson"

	"github.com/weighmaster/weighmaster/attest/keys"
)

// signingKey gives a local key, ECDSA P-256 or Ed25519, as in-toto holds it.
func signingKey(key crypto.Signer) (in_toto.Key, error) {
	doc, err := keys.EncodePlain(key) // stays in memory: the library reads keys as PEM only
	if err != nil {
		return in_toto.Key{}, err
	}
	return load(doc)
}

// PublicKey gives a public key as layouts hold it. Its key id is the one that
// the Python reference computes: sha256 of the canonical JSON of key type,
// scheme and public value.
func PublicKey(pub crypto.PublicKey) (in_toto.Key, error) {
	doc, err := keys.EncodePublic(pub)
	if err != nil {
		return in_toto.Key{}, err
	}
	return load(doc)
}

func load(doc []byte) (in_toto.Key, error) {
	var k in_toto.Key
	if err := k.LoadKeyReaderDefaults(bytes.NewReader(doc)); err != nil {
		return k, fmt.Errorf("key for in-toto: %w", err)
	}
	if k.KeyType != "ed25519" {
		k.KeyVal.Public += "\n" // the library trims the PEM, the reference does not
	}
	id, err := cjson.EncodeCanonical(map[string]any{"keytype": k.KeyType, "scheme": k.Scheme, "keyval": map[string]any{"public": k.KeyVal.Public}})
	if err != nil {
		return k, fmt.Errorf("key for in-toto: %w", err)
	}
	sum := sha256.Sum256(id)
	k.KeyID = hex.EncodeToString(sum[:])
	return k, nil
}

// sign wraps a link or layout in a Metablock with one signature.
func sign(payload any, key crypto.Signer) ([]byte, string, error) {
	k, err := signingKey(key)
	if err != nil {
		return nil, "", err
	}
	block := in_toto.Metablock{Signed: payload, Signatures: []in_toto.Signature{}}
	if err := block.Sign(k); err != nil {
		return nil, "", fmt.Errorf("sign in-toto metadata: %w", err)
	}
	body, err := json.MarshalIndent(&block, "", "  ")
	return append(body, '\n'), k.KeyID, err
}
