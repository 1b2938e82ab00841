package sigstore_test

import (
	"context"
	"encoding/base64"
	"testing"
	"time"

	rekorpb "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/sigstore"
)

// withoutCT hides the certificate transparency logs of the virtual deployment,
// whose certificates carry no signed certificate timestamp.
type withoutCT struct{ *ca.VirtualSigstore }

func (withoutCT) CTLogs() map[string]*root.TransparencyLog { return nil }

const (
	issuer  = "https://issuer.example"
	subject = "ci@example.org"
)

// keyless has the virtual deployment sign the good Statement for an identity
// and writes the result as a bundle.
func keyless(t *testing.T, virtual *ca.VirtualSigstore, subject, issuer string, tamper func(map[string]any)) []byte {
	t.Helper()
	e, err := virtual.AttestAtTime(subject, issuer, []byte(good), time.Now().Add(5*time.Minute), true)
	if err != nil {
		t.Fatal(err)
	}
	content, err := e.VerificationContent()
	if err != nil {
		t.Fatal(err)
	}
	signed, err := e.SignatureContent()
	if err != nil {
		t.Fatal(err)
	}
	timestamps, err := e.Timestamps()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := e.TlogEntries()
	if err != nil {
		t.Fatal(err)
	}
	entry := entries[0].TransparencyLogEntry()
	entry.KindVersion = &rekorpb.KindVersion{Kind: "dsse", Version: "0.0.1"} // the virtual log leaves it out
	b := map[string]any{
		"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
		"verificationMaterial": map[string]any{
			"certificate":               map[string]any{"rawBytes": content.Certificate().Raw},
			"timestampVerificationData": map[string]any{"rfc3161Timestamps": []any{map[string]any{"signedTimestamp": timestamps[0]}}},
			"tlogEntries":               []any{protoJSON(t, entry)},
		},
		"dsseEnvelope": map[string]any{
			"payload": []byte(good), "payloadType": attest.PayloadType,
			"signatures": []any{map[string]any{"sig": base64.StdEncoding.EncodeToString(signed.Signature())}},
		},
	}
	if tamper != nil {
		tamper(b)
	}
	return encode(t, b)
}

func TestCertificateIdentity(t *testing.T) {
	virtual, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatal(err)
	}
	verifier := func(f ...sigstore.Functionary) attest.Verifier {
		v, err := sigstore.NewVerifier(f, sigstore.Options{TrustedRoot: withoutCT{virtual}})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	ci := sigstore.Functionary{Name: "ci", Issuer: issuer, Subject: subject}
	ctx := context.Background()

	claim, err := verifier(ci).Verify(ctx, keyless(t, virtual, subject, issuer, nil), now)
	if err != nil {
		t.Fatal(err)
	}
	if claim.Functionary() != "ci" || claim.SignedAt().IsZero() {
		t.Errorf("claim of %q, vouched %v", claim.Functionary(), claim.SignedAt())
	}

	material := func(b map[string]any) map[string]any { return b["verificationMaterial"].(map[string]any) }
	for _, c := range []struct {
		name            string
		subject, issuer string
		from            *ca.VirtualSigstore
		tamper          func(map[string]any)
		trust           sigstore.Functionary
		check           attest.Check
		words           string
	}{
		{"wrong issuer", subject, "https://other.example", virtual, nil, ci, attest.CheckFunctionary, "https://other.example"},
		{"wrong subject", "dev@example.org", issuer, virtual, nil, ci, attest.CheckFunctionary, "dev@example.org"},
		{"the subject is a prefix", subject + ".evil", issuer, virtual, nil, ci, attest.CheckFunctionary, ".evil"},
		{"another deployment", subject, issuer, stranger, nil, ci, attest.CheckLogEntry, "0 < 1"},
		{"no log entry", subject, issuer, virtual, func(b map[string]any) { delete(material(b), "tlogEntries") }, ci, attest.CheckLogEntry, "not enough verified log entries"},
		{"another payload", subject, issuer, virtual, func(b map[string]any) {
			b["dsseEnvelope"].(map[string]any)["payload"] = []byte(good + "\n")
		}, ci, attest.CheckLogEntry, "does not match envelope payload hash"},
		{"expired when it was signed", subject, issuer, virtual, nil,
			sigstore.Functionary{Name: "ci", Issuer: issuer, Subject: subject, NotAfter: now}, attest.CheckValidity, "expired"},
		{"only keys are trusted", subject, issuer, virtual, nil,
			sigstore.Functionary{Name: "producer", PublicKey: newKey(t, "ecdsa-p256").Public()}, attest.CheckFunctionary, "no certificate identity"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := verifier(c.trust).Verify(ctx, keyless(t, c.from, c.subject, c.issuer, c.tamper), now)
			wantRefused(t, err, c.check, c.words)
		})
	}
	// Where the root names a certificate transparency log, its timestamp is required.
	strict, err := sigstore.NewVerifier([]sigstore.Functionary{ci}, sigstore.Options{TrustedRoot: virtual})
	if err != nil {
		t.Fatal(err)
	}
	_, err = strict.Verify(ctx, keyless(t, virtual, subject, issuer, nil), now)
	wantRefused(t, err, attest.CheckCertificate, "signed certificate timestamp")
}

// A log entry of another signature by the same identity says nothing about this one.
func TestLogEntryOfAnotherBundle(t *testing.T) {
	virtual, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatal(err)
	}
	var borrowed any
	keyless(t, virtual, subject, issuer, func(b map[string]any) {
		borrowed = b["verificationMaterial"].(map[string]any)["tlogEntries"]
	})
	v, err := sigstore.NewVerifier([]sigstore.Functionary{{Name: "ci", Issuer: issuer, Subject: subject}}, sigstore.Options{TrustedRoot: withoutCT{virtual}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = v.Verify(context.Background(), keyless(t, virtual, subject, issuer, func(b map[string]any) {
		b["verificationMaterial"].(map[string]any)["tlogEntries"] = borrowed
	}), now)
	wantRefused(t, err, attest.CheckLogEntry, "signature does not match")
}
