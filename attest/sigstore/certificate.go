package sigstore

import (
	"bytes"
	"crypto/x509"
	"fmt"

	commonpb "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	sigbundle "github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/keys"
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
func (v *verifier) certificate(b *sigbundle.Bundle, content verify.VerificationContent, artifact artifact) (signedBy, error) {
	var none signedBy
	if v.certified == nil {
		return none, refused(attest.CheckFunctionary, "a certificate", "a key that the trust file names; it names no certificate identity", nil)
	}
	var identities []verify.PolicyOption
	for _, t := range v.identities {
		identities = append(identities, verify.WithCertificateIdentity(t.identity))
	}
	result, err := v.certified.Verify(b, verify.NewPolicy(artifact(), identities...))
	if err != nil {
		return none, v.whyNot(b, content, artifact, err)
	}
	if _, err := v.timestamps(b); err != nil {
		return none, err
	}
	t, err := v.identified(result.VerifiedIdentity)
	if err != nil {
		return none, err
	}
	by := signedBy{name: t.name}
	if err := keys.CheckPublic(content.Certificate().PublicKey); err != nil {
		return none, refused(attest.CheckCertificate, "a certificate for another kind of key", "a key that functionaries may have", err)
	}
	if by.key, err = keys.Digest(content.Certificate().PublicKey); err != nil {
		return none, refused(attest.CheckCertificate, "a certificate for an unknown kind of key", "a public key", err)
	}
	for _, keyed := range v.byHint {
		if keyed.id == by.key {
			return none, refused(attest.CheckCertificate, "a certificate for the local key of functionary "+keyed.name, "a key of its own: one key never counts for two", nil)
		}
	}
	var vouched []moment
	for _, ts := range result.VerifiedTimestamps {
		vouched = append(vouched, moment{ts.Timestamp, "which the trusted root vouches for"})
	}
	by.signedAt, err = t.within(vouched)
	return by, err
}

// withoutRoot refuses a certificate chain that brings its own root, as the
// bundle specification does and sigstore-go, which reads the first certificate
// only, does not.
func withoutRoot(chain *commonpb.X509CertificateChain) error {
	for i, der := range chain.GetCertificates() {
		c, err := x509.ParseCertificate(der.GetRawBytes())
		if err != nil {
			return refused(attest.CheckBundle, fmt.Sprintf("certificate %d of the chain malformed", i), "X.509 certificates", err)
		}
		if bytes.Equal(c.RawIssuer, c.RawSubject) {
			return refused(attest.CheckBundle, fmt.Sprintf("a root certificate in its chain, %q", c.Subject), "roots in the trusted root only", nil)
		}
	}
	return nil
}

// identified maps the identity that matched back to its functionary.
func (v *verifier) identified(id *verify.CertificateIdentity) (*trusted, error) {
	if id != nil {
		for _, t := range v.identities {
			if t.subject == id.SubjectAlternativeName.SubjectAlternativeName && t.issuer == id.Issuer.Issuer {
				return t, nil
			}
		}
	}
	return nil, refused(attest.CheckFunctionary, "no matched identity", "a certificate identity that the trust file names", nil)
}

// whyNot finds out which of the library's checks a bundle failed, by making
// them again one by one. Whatever it finds, the bundle stays refused.
func (v *verifier) whyNot(b *sigbundle.Bundle, content verify.VerificationContent, artifact artifact, cause error) error {
	stranger, err := v.certified.Verify(b, verify.NewPolicy(artifact(), verify.WithoutIdentitiesUnsafe()))
	if err == nil && stranger.Signature != nil && stranger.Signature.Certificate != nil {
		c := stranger.Signature.Certificate
		return refused(attest.CheckFunctionary, fmt.Sprintf("issuer %q, subject %q", c.Issuer, c.SubjectAlternativeName), "an identity that the trust file names", nil)
	}
	logged, err := v.certified.VerifyTransparencyLogInclusion(b)
	if err != nil {
		return refused(attest.CheckLogEntry, "no log entry that verifies", "one about this signature in a log of the trusted root", cause)
	}
	observed, err := v.certified.VerifyObserverTimestamps(b, logged)
	if err != nil {
		if stamps, err := b.Timestamps(); err == nil && len(stamps) == 0 {
			cause = nil // the library has no cause either, and says so badly
		}
		return refused(attest.CheckTimestamp, "no time that anybody vouches for", "one by an authority or log of the trusted root", cause)
	}
	for _, m := range observed {
		chains, err := verify.VerifyLeafCertificate(m.Timestamp, content.Certificate(), v.root)
		if err != nil {
			return refused(attest.CheckCertificate, "a certificate that does not verify at "+stamp(m.Timestamp), "one by an authority of the trusted root, in its time", cause)
		}
		if len(v.root.CTLogs()) == 0 {
			continue
		}
		if err := verify.VerifySignedCertificateTimestamp(chains, 1, v.root); err != nil {
			return refused(attest.CheckCertificate, "a certificate that no log of certificates vouches for", "a signed certificate timestamp by a log of the trusted root", cause)
		}
	}
	return refused(attest.CheckSignature, "a signature that does not verify", "one by the certificate's key", cause)
}
