package sigstore_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/attest/sigstore"
)

// sealed signs any payload of any type, written out by hand from the DSSE and
// Sigstore bundle specifications, so that nothing refuses to sign it.
func sealed(t testing.TB, key crypto.Signer, payloadType string, payload []byte) map[string]any {
	t.Helper()
	pae := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(payload), payload)
	sum := sha256.Sum256(pae)
	sig, err := key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	hint, err := sigstore.Hint(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{
		"mediaType":            "application/vnd.dev.sigstore.bundle.v0.3+json",
		"verificationMaterial": map[string]any{"publicKey": map[string]any{"hint": hint}},
		"dsseEnvelope": map[string]any{
			"payload": payload, "payloadType": payloadType,
			"signatures": []any{map[string]any{"sig": base64.StdEncoding.EncodeToString(sig)}},
		},
	}
}

// editPayload changes what a bundle says was signed, and leaves the signature.
func editPayload(t testing.TB, bundle []byte, edit func(string) string) []byte {
	t.Helper()
	var b map[string]any
	if err := json.Unmarshal(bundle, &b); err != nil {
		t.Fatal(err)
	}
	envelope := b["dsseEnvelope"].(map[string]any)
	payload, err := base64.StdEncoding.DecodeString(envelope["payload"].(string))
	if err != nil {
		t.Fatal(err)
	}
	changed := edit(string(payload))
	if changed == string(payload) {
		t.Fatalf("the payload is as before: %s", payload)
	}
	envelope["payload"] = []byte(changed)
	return encode(t, b)
}

// signatureOf gives the signature of a bundle that sealed made.
func signatureOf(t testing.TB, bundle map[string]any) []byte {
	t.Helper()
	list := bundle["dsseEnvelope"].(map[string]any)["signatures"].([]any)
	sig, err := base64.StdEncoding.DecodeString(list[0].(map[string]any)["sig"].(string))
	if err != nil {
		t.Fatal(err)
	}
	return sig
}

func encode(t testing.TB, bundle any) []byte {
	t.Helper()
	body, err := json.Marshal(bundle)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

const good = `{"_type":"https://in-toto.io/Statement/v1","predicate":{"n":1},"predicateType":"https://example.org/said/v1",` +
	`"subject":[{"digest":{"sha256":"abababababababababababababababababababababababababababababababab"},"name":"model.gguf"}]}`

// The handmade bundle is accepted, so that each refusal below has one reason.
func TestHandmadeBundleIsAccepted(t *testing.T) {
	key := newKey(t, keys.ECDSA)
	v := trusting(t, sigstore.Functionary{Name: "producer", PublicKey: key.Public()})
	if _, err := v.Verify(context.Background(), encode(t, sealed(t, key, attest.PayloadType, []byte(good))), now); err != nil {
		t.Fatal(err)
	}
}

func TestTamperedBundles(t *testing.T) {
	key := newKey(t, keys.ECDSA)
	v := trusting(t, sigstore.Functionary{Name: "producer", PublicKey: key.Public()}, sigstore.Functionary{Name: "other", PublicKey: newKey(t, keys.ECDSA).Public()})
	otherHint := func(b map[string]any, hint string) {
		b["verificationMaterial"] = map[string]any{"publicKey": map[string]any{"hint": hint}}
	}
	envelope := func(b map[string]any) map[string]any { return b["dsseEnvelope"].(map[string]any) }
	for _, c := range []struct {
		name   string
		tamper func(map[string]any)
		check  attest.Check
		words  string
	}{
		{"another payload under the old signature", func(b map[string]any) {
			envelope(b)["payload"] = []byte(strings.Replace(good, `"n":1`, `"n":2`, 1))
		}, attest.CheckSignature, "by functionary producer"},
		{"the payload in other white space", func(b map[string]any) {
			envelope(b)["payload"] = []byte(good + " ")
		}, attest.CheckSignature, "does not verify"},
		{"a byte of the signature", func(b map[string]any) {
			sig := envelope(b)["signatures"].([]any)[0].(map[string]any)
			raw, _ := base64.StdEncoding.DecodeString(sig["sig"].(string))
			raw[len(raw)-1] ^= 1
			sig["sig"] = raw
		}, attest.CheckSignature, "does not verify"},
		{"an empty signature", func(b map[string]any) {
			envelope(b)["signatures"] = []any{map[string]any{"sig": ""}}
		}, attest.CheckSignature, "does not verify"},
		{"another payloadType", func(b map[string]any) {
			envelope(b)["payloadType"] = "application/json"
		}, attest.CheckPayloadType, attest.PayloadType},
		{"one signature twice", func(b map[string]any) {
			list := envelope(b)["signatures"].([]any)
			envelope(b)["signatures"] = append(list, list[0])
		}, attest.CheckSignatures, "2 signatures"},
		{"no signature", func(b map[string]any) { envelope(b)["signatures"] = []any{} }, attest.CheckSignatures, "no signature"},
		{"no envelope", func(b map[string]any) { delete(b, "dsseEnvelope") }, attest.CheckEnvelope, "none"},
		{"a bare message signature", func(b map[string]any) {
			delete(b, "dsseEnvelope")
			b["messageSignature"] = map[string]any{"signature": "AAAA"}
		}, attest.CheckEnvelope, "bare message signature"},
		{"the hint of another functionary", func(b map[string]any) {
			hint, _ := sigstore.Hint(newKey(t, keys.ECDSA).Public())
			otherHint(b, hint)
		}, attest.CheckFunctionary, "trust file"},
		{"no hint", func(b map[string]any) { otherHint(b, "") }, attest.CheckFunctionary, "trust file"},
		{"no verification material", func(b map[string]any) { delete(b, "verificationMaterial") }, attest.CheckBundle, "verification material"},
		{"an unknown bundle version", func(b map[string]any) {
			b["mediaType"] = "application/vnd.dev.sigstore.bundle.v9.0+json"
		}, attest.CheckBundle, "v9.0"},
		{"a key that the specification lacks", func(b map[string]any) { b["note"] = "x" }, attest.CheckBundle, `"note"`},
		{"the snake_case spelling of a key", func(b map[string]any) {
			b["dsse_envelope"] = b["dsseEnvelope"]
			delete(b, "dsseEnvelope")
		}, attest.CheckBundle, `want "dsseEnvelope"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := sealed(t, key, attest.PayloadType, []byte(good))
			c.tamper(b)
			claim, err := v.Verify(context.Background(), encode(t, b), now)
			wantRefused(t, err, c.check, c.words)
			if claim.Valid() {
				t.Error("a refused bundle gave a valid claim")
			}
		})
	}
}

// A bundle that names the key of a trusted functionary who did not sign it.
func TestSignatureOfAnotherTrustedFunctionary(t *testing.T) {
	key, other := newKey(t, keys.ECDSA), newKey(t, keys.Ed25519)
	v := trusting(t, sigstore.Functionary{Name: "producer", PublicKey: key.Public()}, sigstore.Functionary{Name: "auditor", PublicKey: other.Public()})
	b := sealed(t, key, attest.PayloadType, []byte(good))
	hint, err := sigstore.Hint(other.Public())
	if err != nil {
		t.Fatal(err)
	}
	b["verificationMaterial"] = map[string]any{"publicKey": map[string]any{"hint": hint}}
	_, err = v.Verify(context.Background(), encode(t, b), now)
	wantRefused(t, err, attest.CheckSignature, "by functionary auditor")
}

// What is signed must be a strict Statement: the signature alone proves nothing.
func TestWellSignedNonsense(t *testing.T) {
	key := newKey(t, keys.ECDSA)
	v := trusting(t, sigstore.Functionary{Name: "producer", PublicKey: key.Public()})
	for _, c := range []struct {
		name, payload string
		check         attest.Check
		words         string
	}{
		{"not JSON", "hello", attest.CheckStatement, "invalid character"},
		{"not an object", "[]", attest.CheckStatement, "Statement"},
		{"another _type", strings.Replace(good, "Statement/v1", "Statement/v0.1", 1), attest.CheckType, "v0.1"},
		{"no _type", strings.Replace(good, `"_type":"https://in-toto.io/Statement/v1",`, "", 1), attest.CheckType, attest.StatementType},
		{"no predicateType", strings.Replace(good, `"https://example.org/said/v1"`, `""`, 1), attest.CheckPredicate, "predicateType"},
		{"a duplicate key", strings.Replace(good, `"predicate":`, `"predicate":{},"predicate":`, 1), attest.CheckStatement, `"predicate" twice`},
		{"a wrongly cased key", strings.Replace(good, `"subject":`, `"Subject":`, 1), attest.CheckStatement, `"Subject", want "subject"`},
		{"both cases of a key", strings.Replace(good, `"predicate":`, `"Predicate":{},"predicate":`, 1), attest.CheckStatement, "differ in more than case"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := v.Verify(context.Background(), encode(t, sealed(t, key, attest.PayloadType, []byte(c.payload))), now)
			wantRefused(t, err, c.check, c.words)
		})
	}
}

func TestBundleTooLarge(t *testing.T) {
	key := newKey(t, keys.ECDSA)
	v := trusting(t, sigstore.Functionary{Name: "producer", PublicKey: key.Public()})
	_, err := v.Verify(context.Background(), make([]byte, attest.MaxBundleBytes+1), now)
	wantRefused(t, err, attest.CheckSize, "bytes")
}

func TestPeriodOfValidity(t *testing.T) {
	key := newKey(t, keys.ECDSA)
	bundle := signed(t, key)
	from, to := now, now.Add(time.Hour)
	v := trusting(t, sigstore.Functionary{Name: "producer", PublicKey: key.Public(), NotBefore: from, NotAfter: to})
	for _, c := range []struct {
		name  string
		at    time.Time
		words string
	}{
		{"at notBefore", from, ""},
		{"just before notAfter", to.Add(-1), ""},
		{"exactly at notAfter", to, "expired"},
		{"after notAfter", to.Add(time.Hour), "expired"},
		{"before notBefore", from.Add(-1), "at or after"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := v.Verify(context.Background(), bundle, c.at)
			if c.words == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantRefused(t, err, attest.CheckValidity, c.words)
		})
	}
}

func TestUnusableTrust(t *testing.T) {
	key := newKey(t, keys.ECDSA).Public()
	weak, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	identity := sigstore.Functionary{Name: "ci", Issuer: "https://issuer.example", Subject: "ci@example.org"}
	for _, c := range []struct {
		name  string
		list  []sigstore.Functionary
		words string
	}{
		{"nobody", nil, "no functionary"},
		{"one name for two keys", []sigstore.Functionary{{Name: "a", PublicKey: key}, {Name: "a", PublicKey: newKey(t, keys.ECDSA).Public()}}, "the name twice"},
		{"one key under two names", []sigstore.Functionary{{Name: "a", PublicKey: key}, {Name: "b", PublicKey: key}}, "the key of a"},
		{"no name", []sigstore.Functionary{{PublicKey: key}}, "no name"},
		{"neither key nor identity", []sigstore.Functionary{{Name: "a"}}, "neither a key nor"},
		{"issuer without subject", []sigstore.Functionary{{Name: "a", Issuer: "https://issuer.example"}}, "explicit in both"},
		{"key and identity", []sigstore.Functionary{{Name: "a", PublicKey: key, Subject: "x"}}, "one of them"},
		{"a period that never was", []sigstore.Functionary{{Name: "a", PublicKey: key, NotBefore: now, NotAfter: now}}, "never sign"},
		{"a weak curve", []sigstore.Functionary{{Name: "a", PublicKey: weak.Public()}}, "public key"},
		{"an identity without a trusted root", []sigstore.Functionary{identity}, "no trusted root"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := sigstore.NewVerifier(c.list, sigstore.Options{}); err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("got %v, want an error with %q", err, c.words)
			}
		})
	}
}

func TestSignerRefusesWhatVerifiersWould(t *testing.T) {
	signer, err := sigstore.NewSigner(newKey(t, keys.ECDSA))
	if err != nil {
		t.Fatal(err)
	}
	s := statement(t)
	s.Subject = nil
	_, err = signer.Sign(context.Background(), s)
	wantRefused(t, err, attest.CheckSubject, "no subject")
	p521, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sigstore.NewSigner(p521); err == nil || !strings.Contains(err.Error(), "want ECDSA P-256, ECDSA P-384 or Ed25519") {
		t.Errorf("a P-521 key gave %v", err)
	}
}
