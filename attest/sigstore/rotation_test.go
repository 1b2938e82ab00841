package sigstore_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/attest/sigstore"
)

// One functionary with two keys in consecutive periods: each verifies what it
// signed in its own, and at the very moment of the change only the new one.
func TestKeysRotate(t *testing.T) {
	change := now.Add(24 * time.Hour)
	retired, current := newKey(t, keys.ECDSA), newKey(t, keys.Ed25519)
	v := trusting(t, sigstore.Functionary{Name: "producer", Keys: []sigstore.Key{
		{PublicKey: retired.Public(), NotBefore: now, NotAfter: change},
		{PublicKey: current.Public(), NotBefore: change},
	}})
	old, young := signed(t, retired), signed(t, current)
	for _, c := range []struct {
		name   string
		bundle []byte
		at     time.Time
		words  string
	}{
		{"the first key from its first moment", old, now, ""},
		{"the first key before it", old, now.Add(-1), "at or after"},
		{"the first key in its last moment", old, change.Add(-1), ""},
		{"the first key when it expires", old, change, "expired"},
		{"the first key a year later", old, change.AddDate(1, 0, 0), "expired"},
		{"the second key before its period", young, change.Add(-1), "at or after"},
		{"the second key from its first moment", young, change, ""},
		{"the second key a year later", young, change.AddDate(1, 0, 0), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			claim, err := v.Verify(context.Background(), c.bundle, c.at)
			if c.words != "" {
				wantRefused(t, err, attest.CheckValidity, c.words)
				return
			}
			if err != nil || claim.Functionary() != "producer" {
				t.Errorf("claim of %q, %v", claim.Functionary(), err)
			}
		})
	}
}

// Two keys of one functionary are two keys and one functionary.
func TestTwoKeysAreOneFunctionary(t *testing.T) {
	first, second := newKey(t, keys.ECDSA), newKey(t, keys.ECDSA)
	v := trusting(t, sigstore.Functionary{Name: "producer", Keys: []sigstore.Key{{PublicKey: first.Public()}, {PublicKey: second.Public()}}})
	a, err := v.Verify(context.Background(), signed(t, first), now)
	if err != nil {
		t.Fatal(err)
	}
	b, err := v.Verify(context.Background(), signed(t, second), now)
	if err != nil {
		t.Fatal(err)
	}
	if a.Functionary() != b.Functionary() || a.Key() == b.Key() {
		t.Errorf("%s by %s and %s by %s: want one functionary and two keys", a.Functionary(), a.Key(), b.Functionary(), b.Key())
	}
}

func TestUnusableKeyLists(t *testing.T) {
	key, other := newKey(t, keys.ECDSA).Public(), newKey(t, keys.ECDSA).Public()
	for _, c := range []struct {
		name  string
		list  []sigstore.Functionary
		words string
	}{
		{"one key twice under one name", []sigstore.Functionary{{Name: "a", Keys: []sigstore.Key{{PublicKey: key}, {PublicKey: key, NotAfter: now}}}}, "the key of a"},
		{"one key in the lists of two names", []sigstore.Functionary{{Name: "a", Keys: []sigstore.Key{{PublicKey: key}}}, {Name: "b", Keys: []sigstore.Key{{PublicKey: other}, {PublicKey: key}}}}, "the key of a"},
		{"a key and a list", []sigstore.Functionary{{Name: "a", PublicKey: key, Keys: []sigstore.Key{{PublicKey: other}}}}, "one of them"},
		{"a period beside a list", []sigstore.Functionary{{Name: "a", NotAfter: now, Keys: []sigstore.Key{{PublicKey: key}}}}, "a period with each key"},
		{"a list and an identity", []sigstore.Functionary{{Name: "a", Subject: "x", Keys: []sigstore.Key{{PublicKey: key}}}}, "one of them"},
		{"a period that never was", []sigstore.Functionary{{Name: "a", Keys: []sigstore.Key{{PublicKey: key, NotBefore: now, NotAfter: now}}}}, "never sign"},
		{"one identity under two names", []sigstore.Functionary{{Name: "a", Issuer: issuer, Subject: builder}, {Name: "b", Issuer: issuer, Subject: builder}}, "the identity of a"},
		{"no key in the list", []sigstore.Functionary{{Name: "a", Keys: []sigstore.Key{{}}}}, "public key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := sigstore.NewVerifier(c.list, sigstore.Options{}); err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("got %v, want an error with %q", err, c.words)
			}
		})
	}
}

// However a key is written, it is one key; a second encoding of its point is
// refused before it can be a second key.
func TestOneKeyInSeveralEncodings(t *testing.T) {
	key := newKey(t, keys.ECDSA)
	pub := key.Public().(*ecdsa.PublicKey)
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	plain := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	windows := []byte(strings.ReplaceAll(string(plain), "\n", "\r\n"))
	again, err := keys.LoadPublic(windows)
	if err != nil {
		t.Fatal(err)
	}
	_, err = sigstore.NewVerifier([]sigstore.Functionary{{Name: "a", PublicKey: pub}, {Name: "b", PublicKey: again}}, sigstore.Options{})
	if err == nil || !strings.Contains(err.Error(), "the key of a") {
		t.Errorf("one key in PEM with other line ends gave %v", err)
	}

	spki := func(point []byte, parameters any) []byte {
		raw, err := asn1.Marshal(parameters)
		if err != nil {
			t.Fatal(err)
		}
		der, err := asn1.Marshal(struct {
			Algorithm pkix.AlgorithmIdentifier
			Key       asn1.BitString
		}{
			pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 10045, 2, 1}, Parameters: asn1.RawValue{FullBytes: raw}},
			asn1.BitString{Bytes: point, BitLength: 8 * len(point)},
		})
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	}
	point, err := pub.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	p256 := asn1.ObjectIdentifier{1, 2, 840, 10045, 3, 1, 7}
	if _, err := keys.LoadPublic(spki(point, p256)); err != nil {
		t.Fatalf("the handmade encoding is refused: %v", err)
	}
	hybrid := append([]byte{6 + point[64]&1}, point[1:]...)
	for name, doc := range map[string][]byte{
		"a compressed point":    spki(append([]byte{2 + point[64]&1}, point[1:33]...), p256),
		"a hybrid point":        spki(hybrid, p256),
		"bytes after the key":   pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: append(der, 0)}),
		"the curve spelled out": spki(point, struct{ Version int }{1}),
		"a point off the curve": spki(append(point[:64:64], point[64]^1), p256),
	} {
		if _, err := keys.LoadPublic(doc); err == nil {
			t.Errorf("%s was taken for a key", name)
		}
	}
}

// Under a key of small order one signature verifies for every message, and a
// point near zero has two encodings.
func TestEd25519KeysThatBindNothing(t *testing.T) {
	for name, text := range map[string]string{
		"the neutral point":                "0100000000000000000000000000000000000000000000000000000000000000",
		"the neutral point, other sign":    "0100000000000000000000000000000000000000000000000000000000000080",
		"order two":                        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"order four":                       "0000000000000000000000000000000000000000000000000000000000000000",
		"order eight":                      "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"order eight, the other":           "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
		"zero in a second encoding":        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"the neutral one, second encoding": "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
		"the last encoding that there is":  "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"too short":                        "01",
	} {
		raw, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := keys.CheckPublic(ed25519.PublicKey(raw)); err == nil || !strings.Contains(err.Error(), "Ed25519 key") {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
	}
	// The library takes this signature by nobody over anything under the neutral point.
	neutral := ed25519.PublicKey(append([]byte{1}, make([]byte, 31)...))
	forged := append(append([]byte{1}, make([]byte, 31)...), make([]byte, 32)...)
	if !ed25519.Verify(neutral, []byte("any message"), forged) || !ed25519.Verify(neutral, []byte("another"), forged) {
		t.Error("the forgery that the check is there for no longer verifies: the test shows nothing")
	}
}
