package modelsigning_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/modelsigning"
	"github.com/weighmaster/weighmaster/attest/sigstore"
	"github.com/weighmaster/weighmaster/fixtures/shared"
)

// vector reads one of the specification's test vectors (test-vectors/v1.0).
func vector(t *testing.T, name string) []byte {
	t.Helper()
	body, err := os.ReadFile(shared.Path(t, "vectors", "model-signing-spec", "test-vectors", "v1.0", filepath.FromSlash(name)+".bundle.json"))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// chainOf reads the certificates of the certificate vector. Its leaf has the key of the key vector.
func chainOf(t *testing.T) []*x509.Certificate {
	t.Helper()
	var doc struct {
		VerificationMaterial struct {
			X509CertificateChain struct {
				Certificates []struct{ RawBytes []byte }
			}
		}
	}
	if err := json.Unmarshal(vector(t, "valid/certificate"), &doc); err != nil {
		t.Fatal(err)
	}
	var list []*x509.Certificate
	for _, c := range doc.VerificationMaterial.X509CertificateChain.Certificates {
		cert, err := x509.ParseCertificate(c.RawBytes)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, cert)
	}
	if len(list) < 2 {
		t.Fatalf("got %d certificates", len(list))
	}
	return list
}

// The resources of the key and certificate vectors.
var vectorFiles = map[string]string{"signme-1": "bc9a717db6064a32", "signme-2": "32dcb1f8e1ae52d5"}

func wantVectorFiles(t *testing.T, m modelsigning.Manifest, want map[string]string) {
	t.Helper()
	if len(m.Resources) != len(want) {
		t.Fatalf("got %+v", m.Resources)
	}
	for _, r := range m.Resources {
		if p, ok := want[r.Name]; !ok || !strings.HasPrefix(r.Digest.Encoded(), p) {
			t.Errorf("got %+v, want %s…", r, p)
		}
	}
}

func TestKeyVectors(t *testing.T) {
	pub := chainOf(t)[0].PublicKey.(*ecdsa.PublicKey)
	v := verifier(t, pub)
	check := func(name string) (modelsigning.Signature, error) {
		return modelsigning.Verify(context.Background(), vector(t, name), v, []crypto.PublicKey{pub}, time.Now())
	}
	s, err := check("valid/key")
	if err != nil {
		t.Fatal(err)
	}
	wantVectorFiles(t, s.Manifest, vectorFiles)
	for name, want := range map[string]attest.Check{
		"invalid/empty":                         attest.CheckBundle,
		"invalid/missing-envelope":              attest.CheckEnvelope,
		"invalid/missing-verification-material": attest.CheckBundle,
		"invalid/missing-tlog-entries":          attest.CheckFunctionary, // a keyless one; see TestKeylessVector
		"invalid-payload/wrong-predicate":       attest.CheckSignature,   // the vector's signature is another payload's
		"valid/certificate":                     attest.CheckBundle,
		"valid/sigstore":                        attest.CheckFunctionary,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := check(name)
			wantCheck(t, err, want, "")
		})
	}
}

func TestCertificateVector(t *testing.T) {
	chain := chainOf(t)
	roots := x509.NewCertPool()
	roots.AddCert(chain[len(chain)-1])
	bundle := vector(t, "valid/certificate")
	const subject = "intermediate-ca" // as the vector's leaf calls itself
	at := chain[0].NotBefore.Add(time.Hour)
	s, err := modelsigning.VerifyCertificate(bundle, roots, subject, at)
	if err != nil {
		t.Fatal(err)
	}
	wantVectorFiles(t, s.Manifest, vectorFiles)
	other := x509.NewCertPool()
	_, err = modelsigning.VerifyCertificate(bundle, other, subject, at)
	wantCheck(t, err, attest.CheckCertificate, "unknown authority")
	_, err = modelsigning.VerifyCertificate(bundle, nil, subject, at)
	wantCheck(t, err, attest.CheckCertificate, "name one")
	_, err = modelsigning.VerifyCertificate(bundle, roots, subject, chain[0].NotAfter.Add(time.Second))
	wantCheck(t, err, attest.CheckCertificate, "expired")
	_, err = modelsigning.VerifyCertificate(bundle, roots, subject, chain[0].NotBefore.Add(-time.Second))
	wantCheck(t, err, attest.CheckCertificate, "not yet valid")
	for _, nobody := range []string{"", "somebody-else"} {
		_, err = modelsigning.VerifyCertificate(bundle, roots, nobody, at)
		wantCheck(t, err, attest.CheckFunctionary, "")
	}
	for name, want := range map[string]attest.Check{
		"valid/key":                             attest.CheckCertificate,
		"valid/sigstore":                        attest.CheckCertificate,
		"invalid/empty":                         attest.CheckBundle,
		"invalid/missing-envelope":              attest.CheckEnvelope,
		"invalid/missing-verification-material": attest.CheckCertificate,
	} {
		_, err := modelsigning.VerifyCertificate(vector(t, name), roots, subject, at)
		t.Run(name, func(t *testing.T) { wantCheck(t, err, want, "") })
	}
	tampered := strings.Replace(string(bundle), `"payload": "ewog`, `"payload": "ewoK`, 1)
	if tampered == string(bundle) {
		t.Fatal("nothing was tampered with")
	}
	_, err = modelsigning.VerifyCertificate([]byte(tampered), roots, subject, at)
	wantCheck(t, err, attest.CheckSignature, "")
}

func TestKeylessVector(t *testing.T) {
	body, err := os.ReadFile(shared.Path(t, "vectors", "sigstore-conformance", "trusted_root.public-good.json"))
	if err != nil {
		t.Fatal(err)
	}
	trusted, err := sigstore.LoadTrustedRoot(body)
	if err != nil {
		t.Fatal(err)
	}
	keyless := func(issuer, subject string) attest.Verifier {
		v, err := sigstore.NewVerifier([]sigstore.Functionary{{Name: "publisher", Issuer: issuer, Subject: subject}}, sigstore.Options{TrustedRoot: trusted})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	const issuer, subject = "https://sigstore.verify.ibm.com/oauth2", "stefanb@us.ibm.com"
	s, err := modelsigning.Verify(context.Background(), vector(t, "valid/sigstore"), keyless(issuer, subject), nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if s.SignedAt.Year() != 2025 || s.Functionary != "publisher" {
		t.Errorf("got %+v", s)
	}
	wantVectorFiles(t, s.Manifest, map[string]string{"signme-1": "f6310066c7320497", "signme-2": "32dcb1f8e1ae52d5"})
	_, err = modelsigning.Verify(context.Background(), vector(t, "valid/sigstore"), keyless(issuer, "somebody@else.example"), nil, time.Now())
	wantCheck(t, err, attest.CheckFunctionary, "")
	_, err = modelsigning.Verify(context.Background(), vector(t, "valid/sigstore"), keyless("https://accounts.example", subject), nil, time.Now())
	wantCheck(t, err, attest.CheckFunctionary, "")
	_, err = modelsigning.Verify(context.Background(), vector(t, "invalid/missing-tlog-entries"), keyless(issuer, subject), nil, time.Now())
	if err == nil {
		t.Error("a certificate without a log entry was accepted")
	}
}
