package modelsigning_test

import (
	"bytes"
	"context"
	"crypto"
	"testing"
	"time"

	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/attest/modelsigning"
)

// FuzzPayload signs whatever comes: what is accepted binds plain names, each
// once, to digests, and the model that has exactly these compares equal.
func FuzzPayload(f *testing.F) {
	for _, doc := range []string{
		statement(plain, resource{"a", "x"}, resource{"b/c", ""}), statement(plain, resource{".", "x"}), statement(plain),
		statement(plain, resource{"../a", "x"}), statement(plain, resource{"a", "x"}, resource{"a", "x"}),
		statement(`{"method":"shards","hash_type":"sha256","allow_symlinks":false,"shard_size":4}`, resource{"a:b:0:4", "xxxx"}, resource{"a:b:4:5", "x"}),
		`{}`, `null`, ``,
	} {
		f.Add([]byte(doc))
	}
	key := newKey(f, keys.ECDSA)
	v := verifier(f, key.Public())
	f.Fuzz(func(t *testing.T, payload []byte) {
		s, err := modelsigning.Verify(context.Background(), signRaw(t, key, string(payload)), v, []crypto.PublicKey{key.Public()}, time.Now())
		if err != nil {
			return
		}
		if len(s.Manifest.Resources) == 0 || !bytes.Contains(payload, []byte(modelsigning.PredicateType)) {
			t.Errorf("accepted %+v", s)
		}
		same := modelsigning.Model{Resources: s.Manifest.Resources, ShardSize: s.Manifest.ShardSize}
		if d := s.Manifest.Compare(same); len(d) != 0 {
			t.Errorf("the signed set differs from itself: %+v", d)
		}
		same.Resources = same.Resources[1:]
		if d := s.Manifest.Compare(same); len(d) != 1 {
			t.Errorf("without its first file the difference is %+v", d)
		}
	})
}

// FuzzBundle gives whatever comes to both verifiers.
func FuzzBundle(f *testing.F) {
	key := newKey(f, keys.ECDSA)
	good := signRaw(f, key, statement(plain, resource{"a", "x"}))
	f.Add(good)
	f.Add(bytes.Replace(good, []byte(`"hint"`), []byte(`"rawBytes"`), 1))
	f.Add([]byte(`{"verificationMaterial":{"publicKey":null}}`))
	f.Add([]byte(`{"verificationMaterial":{"x509CertificateChain":{"certificates":[{"rawBytes":"AA=="}]}},"dsseEnvelope":{}}`))
	v := verifier(f, key.Public())
	f.Fuzz(func(t *testing.T, bundle []byte) {
		s, err := modelsigning.Verify(context.Background(), bundle, v, []crypto.PublicKey{key.Public()}, time.Now())
		if err == nil && (len(s.Manifest.Resources) != 1 || s.Manifest.Resources[0].Name != "a") {
			t.Errorf("nobody signed %+v", s)
		}
		if s, err := modelsigning.VerifyCertificate(bundle, nil, "x", time.Now()); err == nil {
			t.Errorf("no certificate authority vouched for %+v", s)
		}
	})
}
