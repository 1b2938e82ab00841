package keys_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"golang.org/x/mod/sumdb/note"

	"github.com/weighmaster/weighmaster/attest/keys"
)

func say(word string) keys.Password { return func() ([]byte, error) { return []byte(word), nil } }

func never() ([]byte, error) { return nil, errors.New("a password was asked for") }

type public interface{ Equal(crypto.PublicKey) bool }

func TestKeysRoundTrip(t *testing.T) {
	for _, algorithm := range []string{keys.ECDSA, keys.ECDSAP384, keys.Ed25519} {
		t.Run(algorithm, func(t *testing.T) {
			key, err := keys.Generate(algorithm)
			if err != nil {
				t.Fatal(err)
			}
			sealed, err := keys.Encode(key, []byte("word"))
			if err != nil {
				t.Fatal(err)
			}
			plain, err := keys.EncodePlain(key)
			if err != nil {
				t.Fatal(err)
			}
			opened, err := keys.Load(sealed, say("word"))
			if err != nil || !opened.Public().(public).Equal(key.Public()) {
				t.Errorf("encrypted: %v", err)
			}
			opened, err = keys.Load(plain, never)
			if err != nil || !opened.Public().(public).Equal(key.Public()) {
				t.Errorf("plain: %v", err)
			}
			doc, err := keys.EncodePublic(key.Public())
			if err != nil {
				t.Fatal(err)
			}
			pub, err := keys.LoadPublic(doc)
			if err != nil || !pub.(public).Equal(key.Public()) {
				t.Errorf("public: %v", err)
			}
			der, err := x509.MarshalPKIXPublicKey(key.Public())
			if err != nil {
				t.Fatal(err)
			}
			if digest, err := keys.Digest(pub); err != nil || digest.Encoded() != hex(sha256.Sum256(der)) {
				t.Errorf("digest %s, %v", digest, err)
			}
		})
	}
}

func hex(sum [32]byte) string {
	const digits = "0123456789abcdef"
	var b strings.Builder
	for _, x := range sum {
		b.WriteByte(digits[x>>4])
		b.WriteByte(digits[x&15])
	}
	return b.String()
}

// The other Sigstore tools read ours and we read theirs.
func TestSigstoreToolsReadTheSameFiles(t *testing.T) {
	ours, err := keys.Generate(keys.ECDSA)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := keys.Encode(ours, []byte("word"))
	if err != nil {
		t.Fatal(err)
	}
	read, err := cryptoutils.UnmarshalPEMToPrivateKey(doc, cryptoutils.StaticPasswordFunc([]byte("word")))
	if err != nil || !read.(crypto.Signer).Public().(public).Equal(ours.Public()) {
		t.Errorf("sigstore reads ours: %v", err)
	}
	theirs, _, err := cryptoutils.GeneratePEMEncodedECDSAKeyPair(elliptic.P256(), cryptoutils.StaticPasswordFunc([]byte("word")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Load(theirs, say("word")); err != nil {
		t.Errorf("we read theirs: %v", err)
	}
	old := bytes.ReplaceAll(theirs, []byte("SIGSTORE"), []byte("COSIGN"))
	if _, err := keys.Load(old, say("word")); err != nil {
		t.Errorf("we read an old cosign's: %v", err)
	}
}

func TestLoadRefuses(t *testing.T) {
	key, err := keys.Generate(keys.ECDSA)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := keys.Encode(key, []byte("word"))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := keys.EncodePlain(key)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := keys.EncodePublic(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	pkcs8 := func(key any) []byte {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	}
	p521, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	junk, err := encrypted.Encrypt([]byte("no key"), []byte("word"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		doc      []byte
		password keys.Password
		words    string
	}{
		{"the wrong password", sealed, say("other"), "wrong password"},
		{"an empty password", sealed, say(""), "wrong password"},
		{"no password", sealed, nil, "no password was given"},
		{"a failed prompt", sealed, never, "asked for"},
		{"no PEM", []byte("hello"), never, "no PEM block"},
		{"two blocks", append(append([]byte{}, plain...), plain...), never, "behind the PEM block"},
		{"a public key", pub, never, `"PUBLIC KEY"`},
		{"ECDSA on P-521", pkcs8(p521), never, "got ECDSA on P-521"},
		{"RSA", pkcs8(rsaKey), never, "does not name the padding"},
		{"an encrypted nothing", pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED SIGSTORE PRIVATE KEY", Bytes: junk}), say("word"), "private key"},
		{"too large", make([]byte, 1<<20), never, "at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := keys.Load(c.doc, c.password); err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("got %v, want an error with %q", err, c.words)
			}
		})
	}
	if _, err := keys.Encode(key, nil); err == nil {
		t.Error("an empty password encrypted a key")
	}
	if _, err := keys.Encode(rsaKey, []byte("word")); err == nil {
		t.Error("an RSA key was written")
	}
	if _, err := keys.Generate("rsa"); err == nil {
		t.Error("an RSA key was made")
	}
	if _, err := keys.LoadPublic(plain); err == nil || !strings.Contains(err.Error(), `want "PUBLIC KEY"`) {
		t.Errorf("a private key as public key gave %v", err)
	}
}

func TestLogKey(t *testing.T) {
	skey, vkey, err := keys.GenerateLogKey("example.org/log")
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := keys.EncodeLogKey(skey, []byte("word"))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := keys.EncodeLogKeyPlain(skey)
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range [][]byte{sealed, plain} {
		back, err := keys.LoadLogKey(doc, say("word"))
		if err != nil {
			t.Fatal(err)
		}
		signer, err := note.NewSigner(back)
		if err != nil {
			t.Fatal(err)
		}
		verifier, err := note.NewVerifier(vkey)
		if err != nil {
			t.Fatal(err)
		}
		msg, err := note.Sign(&note.Note{Text: "x\n"}, signer)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := note.Open(msg, note.VerifierList(verifier)); err != nil {
			t.Error(err)
		}
	}
	if bytes.Contains(sealed, []byte(skey)) {
		t.Error("the encrypted file shows the key")
	}
	if _, err := keys.LoadLogKey(sealed, say("other")); err == nil || strings.Contains(err.Error(), skey) {
		t.Errorf("the wrong password gave %v", err)
	}
	if _, _, err := keys.GenerateLogKey("two words"); err == nil {
		t.Error("a name with a space was taken")
	}
	if _, err := keys.EncodeLogKey("nonsense", []byte("word")); err == nil {
		t.Error("nonsense was written as a log key")
	}
}

func TestWriteNew(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "producer.key")
	if err := keys.WriteNew(path, []byte("first")); err != nil {
		t.Fatal(err)
	}
	err := keys.WriteNew(path, []byte("second"))
	if err == nil || !strings.Contains(err.Error(), "never overwritten") {
		t.Errorf("over an existing file: %v", err)
	}
	if body, err := os.ReadFile(path); err != nil || string(body) != "first" {
		t.Errorf("the file holds %q, %v", body, err)
	}
	if err := keys.WriteNewPublic(filepath.Join(folder, "producer.pub"), []byte("p")); err != nil {
		t.Error(err)
	}
	if runtime.GOOS != "windows" {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
		}
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 2 {
		t.Errorf("the folder holds %v, %v; want the two keys and nothing half-written", entries, err)
	}
	if err := keys.WriteNew(filepath.Join(folder, "none", "k"), nil); err == nil {
		t.Error("a missing folder gave no error")
	}
}

func FuzzLoad(f *testing.F) {
	key, err := keys.Generate(keys.Ed25519)
	if err != nil {
		f.Fatal(err)
	}
	plain, err := keys.EncodePlain(key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(plain)
	for _, name := range []string{"p256.pbkdf2.pem", "ed25519.scrypt.pem", "p256.des3.pem", "p256.sec1.pem"} {
		f.Add(foreign(f, name))
	}
	f.Add([]byte("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\ne30=\n-----END ENCRYPTED SIGSTORE PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		if signer, err := keys.Load(doc, never); err == nil && signer.Public() == nil {
			t.Fatal("a key without a public key")
		}
		_, _ = keys.LoadLogKey(doc, never)
		_, _ = keys.LoadPublic(doc)
	})
}
