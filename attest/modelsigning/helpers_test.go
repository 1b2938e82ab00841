package modelsigning_test

import (
	"context"
	"crypto"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/attest/modelsigning"
	"github.com/weighmaster/weighmaster/attest/sigstore"
)

func newKey(t testing.TB, algorithm string) crypto.Signer {
	t.Helper()
	key, err := keys.Generate(algorithm)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// verifier believes one key, as functionary producer.
func verifier(t testing.TB, pub crypto.PublicKey) attest.Verifier {
	t.Helper()
	v, err := sigstore.NewVerifier([]sigstore.Functionary{{Name: "producer", PublicKey: pub}}, sigstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func verify(t testing.TB, key crypto.Signer, bundle []byte) (modelsigning.Signature, error) {
	t.Helper()
	return modelsigning.Verify(context.Background(), bundle, verifier(t, key.Public()), []crypto.PublicKey{key.Public()}, time.Now())
}

// hint is how model-signing names a key.
func hint(t testing.TB, pub crypto.PublicKey) string {
	t.Helper()
	doc, err := keys.EncodePublic(pub)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(doc)
	return hex.EncodeToString(sum[:])
}

// signRaw signs any payload with a P-256 key, as a careless signer would.
func signRaw(t testing.TB, key crypto.Signer, payload string) []byte {
	t.Helper()
	sum := sha256.Sum256(dsse.PAE(attest.PayloadType, []byte(payload)))
	sig, err := key.Sign(nil, sum[:], crypto.SHA256) // RFC 6979: the same payload gives the same bundle
	if err != nil {
		t.Fatal(err)
	}
	doc, err := json.Marshal(map[string]any{
		"mediaType":            "application/vnd.dev.sigstore.bundle.v0.3+json",
		"verificationMaterial": map[string]any{"publicKey": map[string]any{"hint": hint(t, key.Public())}, "tlogEntries": []any{}},
		"dsseEnvelope": map[string]any{
			"payload": base64.StdEncoding.EncodeToString([]byte(payload)), "payloadType": attest.PayloadType,
			"signatures": []any{map[string]any{"sig": base64.StdEncoding.EncodeToString(sig), "keyid": ""}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

type resource struct{ name, content string }

// statement writes a Statement as model-signing would, over any resources.
func statement(serialization string, resources ...resource) string {
	root := sha256.New()
	list := []string{}
	for _, r := range resources {
		sum := sha256.Sum256([]byte(r.content))
		root.Write(sum[:])
		name, _ := json.Marshal(r.name)
		list = append(list, fmt.Sprintf(`{"name":%s,"algorithm":"sha256","digest":"%x"}`, name, sum))
	}
	return fmt.Sprintf(`{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"m","digest":{"sha256":"%x"}}],"predicateType":%q,"predicate":{"resources":[%s],"serialization":%s}}`,
		root.Sum(nil), modelsigning.PredicateType, strings.Join(list, ","), serialization)
}

const plain = `{"method":"files","hash_type":"sha256","allow_symlinks":false}`

// folder writes files by name; the name is the folder's.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "m")
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func scan(t testing.TB, dir string, shardSize int64, leave ...string) modelsigning.Model {
	t.Helper()
	m, err := modelsigning.Scan(context.Background(), dir, shardSize, leave)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func wantCheck(t *testing.T, err error, check attest.Check, words string) {
	t.Helper()
	var v *attest.VerificationError
	if !errors.As(err, &v) || v.Check != check || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v, want a refusal by check %s with %q", err, check, words)
	}
}
