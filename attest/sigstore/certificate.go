package sigstore

import (
	"fmt"
	"time"

	sigbundle "github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/weighmaster/weighmaster/attest"
)

// certificateVerifier applies a trusted root: path validation at the vouched
// times, one log entry that is about this very signature, one vouched time.
func certificateVerifier(tr root.TrustedMaterial) (*verify.Verifier, error) {
	options := []verify.VerifierOption{
		verify.WithTransparencyLog(1), verify.WithObserverTimestamps(1), verify.WithoutStatementPredicate(),
	}
	if len(tr.CTLogs()) > 0 {
		options = append(options, verify.WithSignedCertificateTimestamps(1))
	}
	return verify.NewVerifier(tr, options...)
}

// certificate verifies a bundle that carries a certificate. Every vouched time
// must lie in the functionary's period of validity; the earliest is the claim's.
func (v *verifier) certificate(b *sigbundle.Bundle) (*trusted, time.Time, error) {
	var none time.Time
	if v.certified == nil {
		return nil, none, refused(attest.CheckFunctionary, "a certificate", "a key that the trust file names; it names no certificate identity", nil)
	}
	var identities []verify.PolicyOption
	for _, t := range v.identities {
		identities = append(identities, verify.WithCertificateIdentity(t.identity))
	}
	result, err := v.certified.Verify(b, verify.NewPolicy(verify.WithoutArtifactUnsafe(), identities...))
	if err != nil {
		return nil, none, v.whyNot(b, err)
	}
	by, err := v.identified(result.VerifiedIdentity)
	if err != nil {
		return nil, none, err
	}
	signedAt := none
	for _, vouched := range result.VerifiedTimestamps {
		if err := by.validAt(vouched.Timestamp); err != nil {
			return nil, none, err
		}
		if signedAt.IsZero() || vouched.Timestamp.Before(signedAt) {
			signedAt = vouched.Timestamp
		}
	}
	return by, signedAt, nil
}

// identified maps the identity that matched back to its functionary.
func (v *verifier) identified(id *verify.CertificateIdentity) (*trusted, error) {
	if id != nil {
		for _, t := range v.identities {
			if t.Subject == id.SubjectAlternativeName.SubjectAlternativeName && t.Issuer == id.Issuer.Issuer {
				return t, nil
			}
		}
	}
	return nil, refused(attest.CheckFunctionary, "no matched identity", "a certificate identity that the trust file names", nil)
}

// whyNot tells a stranger with a good certificate from a bad signature.
func (v *verifier) whyNot(b *sigbundle.Bundle, cause error) error {
	stranger, err := v.certified.Verify(b, verify.NewPolicy(verify.WithoutArtifactUnsafe(), verify.WithoutIdentitiesUnsafe()))
	if err != nil || stranger.Signature == nil || stranger.Signature.Certificate == nil {
		return refused(attest.CheckSignature, "a bundle that does not verify", "signature, certificate, log entry and time under the trusted root", cause)
	}
	c := stranger.Signature.Certificate
	return refused(attest.CheckFunctionary, fmt.Sprintf("issuer %q, subject %q", c.Issuer, c.SubjectAlternativeName), "an identity that the trust file names", nil)
}
