package keys_test

import (
	"bytes"
	"crypto"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/attest/keys"
)

// foreign reads a key file that another tool wrote.
func foreign(t testing.TB, name string) []byte {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join("..", "..", "fixtures", "keys", name))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestKeysOfOtherTools(t *testing.T) {
	for name, pub := range map[string]string{
		"p256.plain.pem": "p256.pub", "p384.plain.pem": "p384.pub", "ed25519.plain.pem": "ed25519.pub",
		"p256.pbkdf2.pem": "p256.pub", "p384.pbkdf2.pem": "p384.pub", "ed25519.scrypt.pem": "ed25519.pub", "cosign.key": "cosign.pub",
	} {
		t.Run(name, func(t *testing.T) {
			password := say("word")
			if strings.Contains(name, "plain") {
				password = never
			}
			key, err := keys.Load(foreign(t, name), password)
			if err != nil {
				t.Fatal(err)
			}
			want, err := keys.LoadPublic(foreign(t, pub))
			if err != nil || !want.(public).Equal(key.Public()) {
				t.Errorf("it is another key than %s: %v", pub, err)
			}
			if strings.Contains(name, "plain") {
				return
			}
			for word, words := range map[string]string{"other": "wrong password", "": "wrong password"} {
				if _, err := keys.Load(foreign(t, name), say(word)); err == nil || !strings.Contains(err.Error(), words) {
					t.Errorf("the password %q gave %v", word, err)
				}
			}
		})
	}
	for name, words := range map[string]string{
		"p256.des3.pem":   "the cipher 1.2.840.113549.3.7, want AES in CBC mode",
		"p256.pbes1.pem":  "want PBES2",
		"p256.sec1.pem":   "openssl pkcs8 -topk8",
		"p256.legacy.pem": "openssl pkcs8 -topk8",
	} {
		if _, err := keys.Load(foreign(t, name), never); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: got %v, want an error with %q", name, err, words)
		}
	}
	if _, err := keys.LoadPublic(foreign(t, "rsa.pub")); err == nil || !strings.Contains(err.Error(), "got RSA of 2048 bits") {
		t.Errorf("an RSA key gave %v", err)
	}
}

// The password is overwritten once it was used.
func TestPasswordIsWiped(t *testing.T) {
	for _, name := range []string{"cosign.key", "p256.pbkdf2.pem"} {
		word := []byte("word")
		if _, err := keys.Load(foreign(t, name), func() ([]byte, error) { return word, nil }); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(word, make([]byte, len(word))) {
			t.Errorf("%s: the password is still there", name)
		}
	}
}

// A key file cannot ask for work or memory before it is refused: the password
// is not even asked for.
func TestKeyFilesThatAskForWork(t *testing.T) {
	der := func(v any) asn1.RawValue {
		raw, err := asn1.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return asn1.RawValue{FullBytes: raw}
	}
	pbkdf2, scrypt := asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}, asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11591, 4, 11}
	pkcs8 := func(kdf asn1.ObjectIdentifier, params any, iv, data []byte) []byte {
		type pair struct{ KDF, Cipher pkix.AlgorithmIdentifier }
		body, err := asn1.Marshal(struct {
			Algorithm pkix.AlgorithmIdentifier
			Data      []byte
		}{
			pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}, Parameters: der(pair{
				pkix.AlgorithmIdentifier{Algorithm: kdf, Parameters: der(params)},
				pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 42}, Parameters: der(iv)},
			})}, data,
		})
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: body})
	}
	type iterations struct {
		Salt  []byte
		Count int
	}
	type memory struct {
		Salt    []byte
		N, R, P int
	}
	salt, iv, data := []byte("saltsalt"), make([]byte, 16), make([]byte, 32)
	for _, c := range []struct {
		name, words string
		doc         []byte
	}{
		{"a billion iterations", "1000000000 iterations", pkcs8(pbkdf2, iterations{salt, 1_000_000_000}, iv, data)},
		{"no iterations", "0 iterations", pkcs8(pbkdf2, iterations{salt, 0}, iv, data)},
		{"a terabyte", "at most 268435456 bytes", pkcs8(scrypt, memory{salt, 1 << 30, 8, 1}, iv, data)},
		{"an overflow", "at most 268435456 bytes", pkcs8(scrypt, memory{salt, 1 << 40, 1 << 30, 1}, iv, data)},
		{"many times over", "p at most 16", pkcs8(scrypt, memory{salt, 1 << 14, 8, 1 << 20}, iv, data)},
		{"a negative cost", "N -2", pkcs8(scrypt, memory{salt, -2, 8, 1}, iv, data)},
		{"a short initial vector", "an initial vector of 3 bytes", pkcs8(pbkdf2, iterations{salt, 1}, iv[:3], data)},
		{"half a block", "8 bytes encrypted", pkcs8(pbkdf2, iterations{salt, 1}, iv, data[:8])},
		{"nothing encrypted", "0 bytes encrypted", pkcs8(pbkdf2, iterations{salt, 1}, iv, nil)},
		{"an unknown derivation", "want PBKDF2 or scrypt", pkcs8(asn1.ObjectIdentifier{1, 2, 3}, iterations{salt, 1}, iv, data)},
		{"malformed parameters", "malformed parameters", pkcs8(pbkdf2, struct{ A string }{"x"}, iv, data)},
		{"no PBES2", "want PBES2", pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("x")})},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := keys.Load(c.doc, never); err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("got %v, want an error with %q", err, c.words)
			}
		})
	}
}

// The parameters of the Sigstore tools' encryption are taken in three sets and no other.
func TestSealedFilesThatAskForWork(t *testing.T) {
	for name, c := range map[string]struct {
		n, r, p, nonce int
		words          string
	}{
		"a terabyte":      {1 << 30, 8, 1, 24, "unsupported scrypt parameters"},
		"no cost":         {1, 8, 1, 24, "unsupported scrypt parameters"},
		"many times over": {1 << 15, 8, 1 << 20, 24, "unsupported scrypt parameters"},
		"a short nonce":   {1 << 15, 8, 1, 3, "nonce size"},
	} {
		body, err := json.Marshal(map[string]any{
			"kdf":        map[string]any{"name": "scrypt", "params": map[string]int{"N": c.n, "r": c.r, "p": c.p}, "salt": make([]byte, 32)},
			"cipher":     map[string]any{"name": "nacl/secretbox", "nonce": make([]byte, c.nonce)},
			"ciphertext": base64.StdEncoding.EncodeToString(make([]byte, 64)),
		})
		if err != nil {
			t.Fatal(err)
		}
		doc := pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED SIGSTORE PRIVATE KEY", Bytes: body})
		if _, err := keys.Load(doc, say("word")); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.words)
		}
	}
}

func FuzzLoadPublic(f *testing.F) {
	for _, name := range []string{"p256.pub", "p384.pub", "ed25519.pub", "rsa.pub", "cosign.key"} {
		f.Add(foreign(f, name))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		pub, err := keys.LoadPublic(doc)
		if err != nil {
			if pub != nil {
				t.Fatalf("a key beside the error %v", err)
			}
			return
		}
		again, err := keys.EncodePublic(pub)
		if err != nil {
			t.Fatal(err)
		}
		back, err := keys.LoadPublic(again)
		if err != nil || !back.(interface{ Equal(crypto.PublicKey) bool }).Equal(pub) {
			t.Fatalf("its own encoding is another key: %v", err)
		}
	})
}
