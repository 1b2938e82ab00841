// Package claim makes Claims. It is internal so that nothing outside attest can
// make one without verifying a signature.
package claim

import (
	"encoding/json"
	"time"

	spb "github.com/in-toto/attestation/go/v1"
	godigest "github.com/opencontainers/go-digest"
)

// Claim is a Statement whose envelope verified and whose functionary the trust
// file names. The zero Claim is not a claim: Valid tells.
type Claim struct{ made Made }

// Made is what a verifier established.
type Made struct {
	Statement   *spb.Statement
	Predicate   json.RawMessage // the predicate exactly as signed
	Functionary string          // name in the trust file
	Key         godigest.Digest // sha256 of the DER (PKIX) of the public key that signed, local or in a certificate
	PAE         godigest.Digest // sha256 of the envelope's PAE
	Bundle      godigest.Digest // sha256 of the bundle's bytes
	// SignedAt is a time that a timestamp authority or a transparency log vouches for; zero without one.
	SignedAt time.Time
}

// New makes a Claim. Call it only after the signature verified.
func New(m Made) Claim { return Claim{m} }

// Valid tells a Claim from the zero value.
func (c Claim) Valid() bool { return c.made.Statement != nil }

// Statement returns the signed Statement. Callers must not change it.
func (c Claim) Statement() *spb.Statement { return c.made.Statement }

// PredicateType returns the Statement's predicate type.
func (c Claim) PredicateType() string { return c.made.Statement.GetPredicateType() }

// Predicate returns the predicate's JSON exactly as signed.
func (c Claim) Predicate() json.RawMessage { return c.made.Predicate }

// Functionary returns the signer's name in the trust file.
func (c Claim) Functionary() string { return c.made.Functionary }

// Key is the sha256 of the DER (PKIX) of the public key that signed, so that
// thresholds count distinct keys, whoever showed them.
func (c Claim) Key() godigest.Digest { return c.made.Key }

// PAE returns the sha256 of the envelope's pre-authentication encoding: the identity of what was said.
func (c Claim) PAE() godigest.Digest { return c.made.PAE }

// Bundle returns the sha256 of the bundle's bytes: the identity of who said it and when.
func (c Claim) Bundle() godigest.Digest { return c.made.Bundle }

// SignedAt returns the vouched signing time, zero without one.
func (c Claim) SignedAt() time.Time { return c.made.SignedAt }
