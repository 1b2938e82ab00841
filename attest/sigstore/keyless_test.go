package sigstore_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	dssepb "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/attest/sigstore"
	"github.com/weighmaster/weighmaster/attest/sigstore/virtual"
)

const builder = "https://ci.example/owner/repository/build.yml@refs/heads/main"

// deployed gives what an honest deployment answers; a test replaces a part.
func deployed(t testing.TB, d *virtual.Deployment) sigstore.KeylessOptions {
	t.Helper()
	return sigstore.KeylessOptions{
		Services: sigstore.Services{
			Certificates: virtual.Identity{D: d, Issuer: issuer, Subject: builder, At: d.Now},
			Log:          virtual.Log{D: d, At: d.Now.Add(time.Minute)},
			Timestamps:   virtual.Clock{D: d, At: d.Now.Add(time.Minute)},
		},
		Issuer: issuer, Subject: builder, Token: "none", TrustedRoot: d.Material(t, virtual.RootOptions{}),
	}
}

func keylessBundle(t testing.TB, opts sigstore.KeylessOptions) []byte {
	t.Helper()
	signer, err := sigstore.NewKeylessSigner(opts)
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := signer.Sign(context.Background(), statement(t))
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

func TestKeylessSigning(t *testing.T) {
	d := virtual.New(t)
	opts := deployed(t, d)
	v, err := sigstore.NewVerifier([]sigstore.Functionary{{Name: "ci", Issuer: issuer, Subject: builder}}, sigstore.Options{TrustedRoot: opts.TrustedRoot})
	if err != nil {
		t.Fatal(err)
	}
	first, second := keylessBundle(t, opts), keylessBundle(t, opts)
	a, err := v.Verify(context.Background(), first, now)
	if err != nil {
		t.Fatal(err)
	}
	b, err := v.Verify(context.Background(), second, now)
	if err != nil {
		t.Fatal(err)
	}
	if a.Functionary() != "ci" || !a.SignedAt().Equal(d.Now.Add(time.Minute)) || a.Key() == b.Key() || a.PAE() != b.PAE() {
		t.Errorf("claims by %s at %v with keys %s and %s: want one identity, the vouched time, a fresh key each", a.Functionary(), a.SignedAt(), a.Key(), b.Key())
	}
}

// Whatever an authority or log answers is checked before a bundle is returned.
func TestKeylessSigningBelievesNobody(t *testing.T) {
	d, other := virtual.New(t), virtual.New(t)
	stranger := newKey(t, keys.ECDSA).Public()
	for _, c := range []struct {
		name  string
		lie   func(*sigstore.KeylessOptions)
		words string
	}{
		{"a certificate for another subject", func(o *sigstore.KeylessOptions) {
			o.Certificates = virtual.Identity{D: d, Issuer: issuer, Subject: builder + "x", At: d.Now}
		}, "thrown away: functionary"},
		{"a certificate for another issuer", func(o *sigstore.KeylessOptions) {
			o.Certificates = virtual.Identity{D: d, Issuer: issuer + "x", Subject: builder, At: d.Now}
		}, "thrown away: functionary"},
		{"a certificate for another key", func(o *sigstore.KeylessOptions) {
			o.Certificates = virtual.Identity{D: d, Issuer: issuer, Subject: builder, At: d.Now, Key: stranger}
		}, "could not verify envelope"},
		{"a certificate by another authority", func(o *sigstore.KeylessOptions) {
			o.Certificates = virtual.Identity{D: other, Issuer: issuer, Subject: builder, At: d.Now}
		}, "thrown away: certificate"},
		{"a certificate that expired before the log saw it", func(o *sigstore.KeylessOptions) {
			o.Certificates = virtual.Identity{D: d, Issuer: issuer, Subject: builder, At: d.Now.Add(-time.Hour)}
		}, "integrated time outside certificate validity"},
		{"an entry of another log", func(o *sigstore.KeylessOptions) { o.Log = virtual.Log{D: other, At: d.Now} }, "thrown away: logEntry"},
		{"a log that says nothing", func(o *sigstore.KeylessOptions) { o.Log = mute{} }, "thrown away: logEntry"},
		{"a log whose client panics", func(o *sigstore.KeylessOptions) { o.Log = broken{} }, "lacks what was asked"},
		{"a log that refuses", func(o *sigstore.KeylessOptions) { o.Log = closed{} }, "the log is closed"},
		{"a timestamp outside the certificate", func(o *sigstore.KeylessOptions) {
			o.Timestamps = virtual.Clock{D: d, At: d.Now.Add(time.Hour)}
		}, "thrown away: certificate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			opts := deployed(t, d)
			c.lie(&opts)
			signer, err := sigstore.NewKeylessSigner(opts)
			if err != nil {
				t.Fatal(err)
			}
			bundle, err := signer.Sign(context.Background(), statement(t))
			if err == nil || bundle != nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("got %d bytes and %v, want an error with %q", len(bundle), err, c.words)
			}
		})
	}
	for name, spoil := range map[string]func(*sigstore.KeylessOptions){
		"no subject":      func(o *sigstore.KeylessOptions) { o.Subject = "" },
		"no trusted root": func(o *sigstore.KeylessOptions) { o.TrustedRoot = nil },
		"no log":          func(o *sigstore.KeylessOptions) { o.Log = nil },
	} {
		opts := deployed(t, d)
		spoil(&opts)
		if _, err := sigstore.NewKeylessSigner(opts); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

type mute struct{}

func (mute) GetTransparencyLogEntry(context.Context, []byte, *protobundle.Bundle) error { return nil }

type broken struct{}

func (broken) GetTransparencyLogEntry(context.Context, []byte, *protobundle.Bundle) error {
	panic("nil pointer, as Rekor's client gives for an answer without an ETag")
}

type closed struct{}

func (closed) GetTransparencyLogEntry(context.Context, []byte, *protobundle.Bundle) error {
	return errors.New("the log is closed")
}

// Each accept of keyless verification beside what must be refused.
func TestKeylessRefusals(t *testing.T) {
	d, other := virtual.New(t), virtual.New(t)
	opts := deployed(t, d)
	good, another, foreign := keylessBundle(t, opts), keylessBundle(t, opts), keylessBundle(t, deployed(t, other))
	entry := func(b map[string]any) map[string]any {
		return b["verificationMaterial"].(map[string]any)["tlogEntries"].([]any)[0].(map[string]any)
	}
	material := func(b map[string]any) map[string]any { return b["verificationMaterial"].(map[string]any) }
	open := func(body []byte) map[string]any {
		var b map[string]any
		if err := json.Unmarshal(body, &b); err != nil {
			t.Fatal(err)
		}
		return b
	}
	ci := sigstore.Functionary{Name: "ci", Issuer: issuer, Subject: builder}
	keep := func(map[string]any) {}
	for _, c := range []struct {
		name   string
		tamper func(map[string]any)
		trust  sigstore.Functionary
		root   virtual.RootOptions
		check  attest.Check
		words  string
	}{
		{"untouched", keep, ci, virtual.RootOptions{}, "", ""},
		{"a pattern for a subject", keep, sigstore.Functionary{Name: "ci", Issuer: issuer, Subject: ".*"}, virtual.RootOptions{}, attest.CheckFunctionary, builder},
		{"a pattern for an issuer", keep, sigstore.Functionary{Name: "ci", Issuer: "https://.*", Subject: builder}, virtual.RootOptions{}, attest.CheckFunctionary, issuer},
		{"the subject in another case", keep, sigstore.Functionary{Name: "ci", Issuer: issuer, Subject: strings.ToUpper(builder)}, virtual.RootOptions{}, attest.CheckFunctionary, builder},
		{"the beginning of the subject", keep, sigstore.Functionary{Name: "ci", Issuer: issuer, Subject: builder[:20]}, virtual.RootOptions{}, attest.CheckFunctionary, builder},
		{"the identity's period ended at that moment", keep, sigstore.Functionary{Name: "ci", Issuer: issuer, Subject: builder, NotAfter: d.Now.Add(time.Minute)}, virtual.RootOptions{}, attest.CheckValidity, "expired"},
		{"no log entry", func(b map[string]any) { delete(material(b), "tlogEntries") }, ci, virtual.RootOptions{}, attest.CheckLogEntry, "0 < 1"},
		{"the log entry of another signature", func(b map[string]any) { material(b)["tlogEntries"] = material(open(another))["tlogEntries"] }, ci, virtual.RootOptions{}, attest.CheckLogEntry, "signature does not match"},
		{"a proof without a signed checkpoint", func(b map[string]any) { delete(entry(b)["inclusionProof"].(map[string]any), "checkpoint") }, ci, virtual.RootOptions{}, attest.CheckBundle, "missing required checkpoint"},
		{"a checkpoint by another log", func(b map[string]any) {
			entry(b)["inclusionProof"].(map[string]any)["checkpoint"] = entry(open(foreign))["inclusionProof"].(map[string]any)["checkpoint"]
		}, ci, virtual.RootOptions{}, attest.CheckLogEntry, "checkpoint"},
		{"a checkpoint of another tree by the same log", func(b map[string]any) {
			entry(b)["inclusionProof"].(map[string]any)["checkpoint"] = entry(open(another))["inclusionProof"].(map[string]any)["checkpoint"]
		}, ci, virtual.RootOptions{}, attest.CheckLogEntry, "root hash does not match"},
		{"no proof, a promise only", func(b map[string]any) { delete(entry(b), "inclusionProof") }, ci, virtual.RootOptions{}, attest.CheckBundle, "inclusion proof missing"},
		{"the log's time changed", func(b map[string]any) { entry(b)["integratedTime"] = "1" }, ci, virtual.RootOptions{}, attest.CheckLogEntry, "0 < 1"},
		{"another certificate of the same identity", func(b map[string]any) { material(b)["certificate"] = material(open(another))["certificate"] }, ci, virtual.RootOptions{}, attest.CheckLogEntry, "certificate does not match"},
		{"the certificate of another deployment", func(b map[string]any) { material(b)["certificate"] = material(open(foreign))["certificate"] }, ci, virtual.RootOptions{}, attest.CheckLogEntry, "certificate does not match"},
		{"a timestamp of another signature", func(b map[string]any) {
			material(b)["timestampVerificationData"] = material(open(another))["timestampVerificationData"]
		}, ci, virtual.RootOptions{}, attest.CheckTimestamp, "hashed messages don't match"},
		{"no signed certificate timestamp where the root names a log of certificates", keep, ci, virtual.RootOptions{WithCTLog: true}, attest.CheckCertificate, "signed certificate timestamp"},
		{"an authority that the root does not name", keep, ci, virtual.RootOptions{WithoutCertificates: true}, attest.CheckCertificate, "certificate verification failed"},
		{"another payload", func(b map[string]any) { b["dsseEnvelope"].(map[string]any)["payload"] = "e30=" }, ci, virtual.RootOptions{}, attest.CheckLogEntry, "payload hash"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := sigstore.NewVerifier([]sigstore.Functionary{c.trust}, sigstore.Options{TrustedRoot: d.Material(t, c.root)})
			if err != nil {
				t.Fatal(err)
			}
			b := open(good)
			c.tamper(b)
			_, err = v.Verify(context.Background(), encode(t, b), now)
			if c.check != "" {
				wantRefused(t, err, c.check, c.words)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// A local key that also has a certificate is one key: it cannot count for the
// functionary of the key and for the one of the identity.
func TestLocalKeyWithACertificate(t *testing.T) {
	d := virtual.New(t)
	key := newKey(t, keys.ECDSA)
	b := sealed(t, key, attest.PayloadType, []byte(good))
	der, err := virtual.Identity{D: d, Issuer: issuer, Subject: builder, At: d.Now}.Certify(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	logged := logEntry(t, d, der, []byte(good), signatureOf(t, b))
	b["verificationMaterial"] = map[string]any{"certificate": map[string]any{"rawBytes": der}, "tlogEntries": []any{logged}}
	material := d.Material(t, virtual.RootOptions{})
	ci := sigstore.Functionary{Name: "ci", Issuer: issuer, Subject: builder}
	alone, err := sigstore.NewVerifier([]sigstore.Functionary{ci}, sigstore.Options{TrustedRoot: material})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := alone.Verify(context.Background(), encode(t, b), now); err != nil {
		t.Fatal(err)
	}
	both, err := sigstore.NewVerifier([]sigstore.Functionary{ci, {Name: "producer", PublicKey: key.Public()}}, sigstore.Options{TrustedRoot: material})
	if err != nil {
		t.Fatal(err)
	}
	_, err = both.Verify(context.Background(), encode(t, b), now)
	wantRefused(t, err, attest.CheckCertificate, "the local key of functionary producer")
}

// Certificates are for the kinds of keys that functionaries have, and no other.
func TestCertificateForAnotherKindOfKey(t *testing.T) {
	d := virtual.New(t)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p521, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	v, err := sigstore.NewVerifier([]sigstore.Functionary{{Name: "ci", Issuer: issuer, Subject: builder}}, sigstore.Options{TrustedRoot: d.Material(t, virtual.RootOptions{})})
	if err != nil {
		t.Fatal(err)
	}
	for words, key := range map[string]crypto.Signer{"got RSA of 2048 bits": rsaKey, "got ECDSA on P-521": p521} {
		b := sealed(t, key, attest.PayloadType, []byte(good))
		der, err := virtual.Identity{D: d, Issuer: issuer, Subject: builder, At: d.Now}.Certify(key.Public())
		if err != nil {
			t.Fatal(err)
		}
		logged := logEntry(t, d, der, []byte(good), signatureOf(t, b))
		b["verificationMaterial"] = map[string]any{"certificate": map[string]any{"rawBytes": der}, "tlogEntries": []any{logged}}
		_, err = v.Verify(context.Background(), encode(t, b), now)
		wantRefused(t, err, attest.CheckCertificate, words)
	}
}

// logEntry has the virtual log take in an envelope, and gives the entry in JSON.
func logEntry(t *testing.T, d *virtual.Deployment, certificate, payload, sig []byte) json.RawMessage {
	t.Helper()
	b := &protobundle.Bundle{
		VerificationMaterial: &protobundle.VerificationMaterial{},
		Content: &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &dssepb.Envelope{
			Payload: payload, PayloadType: attest.PayloadType, Signatures: []*dssepb.Signature{{Sig: sig}},
		}},
	}
	doc := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	if err := (virtual.Log{D: d, At: d.Now.Add(time.Minute)}).GetTransparencyLogEntry(context.Background(), doc, b); err != nil {
		t.Fatal(err)
	}
	return protoJSON(t, b.VerificationMaterial.TlogEntries[0])
}

// A signing config, as cosign takes it, names the services of a keyless signature.
func TestSigningConfig(t *testing.T) {
	d := virtual.New(t)
	url := virtual.Identity{D: d, Issuer: issuer, Subject: "person@example.org", At: d.Now}.Serve(t)
	doc := string(virtual.SigningConfig(url))
	services, err := sigstore.LoadSigningConfig([]byte(doc), d.Now)
	if err != nil {
		t.Fatal(err)
	}
	keylessBundle(t, sigstore.KeylessOptions{
		Services: services, Issuer: issuer, Subject: "person@example.org", Token: virtual.Token("person@example.org"), TrustedRoot: d.Material(t, virtual.RootOptions{}),
	})
	for name, c := range map[string]struct{ doc, words string }{
		"a key twice":              {strings.Replace(doc, `"caUrls"`, `"mediaType":"x","caUrls"`, 1), "twice"},
		"another document":         {`{"mediaType":"application/json"}`, "signing config"},
		"no certificate authority": {strings.Replace(doc, `"caUrls":[`, `"caUrls":[],"oidcUrls":[`, 1), "oidcUrls"},
		"services of the future":   {strings.ReplaceAll(doc, "2020-01-01", "9020-01-01"), "certificate authority: no matching service"},
		"a log of another time":    {strings.ReplaceAll(doc, `"majorApiVersion":1`, `"majorApiVersion":7`), "certificate authority: no matching service"},
	} {
		if _, err := sigstore.LoadSigningConfig([]byte(c.doc), d.Now); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.words)
		}
	}
}
