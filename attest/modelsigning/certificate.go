package modelsigning

import (
	"crypto"
	"crypto/ecdsa"
	_ "crypto/sha512" // SHA-384 and SHA-512 of the larger curves
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	commonpb "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/keys"
)

// mediaType is that of every bundle of the format (section 4).
const mediaType = "application/vnd.dev.sigstore.bundle.v0.3+json"

// maxCertificates bounds the chain in a bundle.
const maxCertificates = 10

// VerifyCertificate verifies a model signature by a certificate under a
// certificate authority (section 4.1, certificate). The certificate must be for
// signing code, must be valid at the moment at, and must be the subject's: one
// of its alternative names (e-mail, URI, DNS), or its common name where it has
// none. An authority that signs for many vouches for no model by itself.
func VerifyCertificate(bundle []byte, roots *x509.CertPool, subject string, at time.Time) (Signature, error) {
	env, err := attest.OpenUnverified(bundle)
	if err != nil {
		return Signature{}, err
	}
	if t := env.Bundle.GetMediaType(); t != mediaType {
		return Signature{}, refuse(attest.CheckBundle, "/mediaType", fmt.Sprintf("%.100q", t), fmt.Sprintf("%q", mediaType))
	}
	leaf, err := verifiedLeaf(env.Bundle.GetVerificationMaterial().GetX509CertificateChain(), roots, at)
	if err != nil {
		return Signature{}, err
	}
	if names := namesOf(leaf); subject == "" || !slices.Contains(names, subject) {
		return Signature{}, refuse(attest.CheckFunctionary, "", fmt.Sprintf("a certificate of %.500q", names), fmt.Sprintf("one of %q", subject))
	}
	pub, hash, err := leafKey(leaf)
	if err != nil {
		return Signature{}, err
	}
	h := hash.New()
	h.Write(dsse.PAE(attest.PayloadType, env.Payload))
	if !ecdsa.VerifyASN1(pub, h.Sum(nil), env.Bundle.GetDsseEnvelope().GetSignatures()[0].GetSig()) {
		return Signature{}, refuse(attest.CheckSignature, "/dsseEnvelope/signatures/0", "a signature that does not verify", "one by the certificate's key")
	}
	s, predicate, err := attest.DecodeStatement(env.Payload)
	if err != nil {
		return Signature{}, err
	}
	m, err := readManifest(s, predicate)
	if err != nil {
		return Signature{}, err
	}
	id, err := keys.Digest(pub)
	return Signature{Manifest: m, Functionary: subject, Key: id}, err
}

func verifiedLeaf(chain *commonpb.X509CertificateChain, roots *x509.CertPool, at time.Time) (*x509.Certificate, error) {
	const where = "/verificationMaterial/x509CertificateChain"
	raw := chain.GetCertificates()
	if len(raw) == 0 || len(raw) > maxCertificates {
		return nil, refuse(attest.CheckCertificate, where, fmt.Sprintf("%d certificates", len(raw)), fmt.Sprintf("1 to %d", maxCertificates))
	}
	if roots == nil {
		return nil, refuse(attest.CheckCertificate, where, "a certificate", "a certificate authority that is trusted; name one")
	}
	list := make([]*x509.Certificate, len(raw))
	others := x509.NewCertPool()
	for i, c := range raw {
		var err error
		if list[i], err = x509.ParseCertificate(c.GetRawBytes()); err != nil {
			return nil, &attest.VerificationError{Check: attest.CheckCertificate, Where: where, Got: "other bytes", Want: "a certificate", Err: err}
		}
		if i > 0 {
			others.AddCert(list[i])
		}
	}
	_, err := list[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: others, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}})
	if err != nil {
		return nil, &attest.VerificationError{Check: attest.CheckCertificate, Where: where, Got: "a chain that does not hold", Want: "one from a trusted authority, for code signing, valid at " + at.UTC().Format(time.RFC3339), Err: err}
	}
	if list[0].KeyUsage&x509.KeyUsageDigitalSignature == 0 {
		return nil, refuse(attest.CheckCertificate, where, "a certificate that is not for digital signatures", "one that is")
	}
	return list[0], nil
}

func namesOf(c *x509.Certificate) []string {
	names := slices.Concat(c.EmailAddresses, c.DNSNames)
	for _, u := range c.URIs {
		names = append(names, u.String())
	}
	if len(names) == 0 && c.Subject.CommonName != "" {
		names = []string{c.Subject.CommonName}
	}
	return names
}

func leafKey(c *x509.Certificate) (*ecdsa.PublicKey, crypto.Hash, error) {
	pub, ok := c.PublicKey.(*ecdsa.PublicKey)
	if !ok {
		return nil, 0, refuse(attest.CheckCertificate, "", fmt.Sprintf("a key of type %T", c.PublicKey), "ECDSA")
	}
	switch pub.Curve.Params().BitSize {
	case 256:
		return pub, crypto.SHA256, nil
	case 384:
		return pub, crypto.SHA384, nil
	case 521:
		return pub, crypto.SHA512, nil
	}
	return nil, 0, refuse(attest.CheckCertificate, "", "ECDSA on "+pub.Curve.Params().Name, "P-256, P-384 or P-521")
}
