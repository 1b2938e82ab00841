package main

import (
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/schemas"
)

// TestModelVerifyByCertificate gives the specification's certificate vector to
// the verb. Its model is not published, so a signature that holds is followed by
// files that are missing; whom to believe is what is tested.
func TestModelVerifyByCertificate(t *testing.T) {
	bundle := shared.Path(t, "vectors", "model-signing-spec", "test-vectors", "v1.0", "valid", "certificate.bundle.json")
	body, err := os.ReadFile(bundle)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		VerificationMaterial struct {
			X509CertificateChain struct {
				Certificates []struct{ RawBytes []byte }
			}
		}
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		t.Fatal(err)
	}
	chain := doc.VerificationMaterial.X509CertificateChain.Certificates
	if len(chain) < 2 {
		t.Fatalf("got %d certificates", len(chain))
	}
	dir := t.TempDir()
	write := func(name string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	root, leaf := write("root.pem", chain[len(chain)-1].RawBytes), write("leaf.pem", chain[0].RawBytes)
	model := filepath.Join(dir, "model")
	if err := os.Mkdir(model, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(model, "signme-1"), []byte("other bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	res, err := verifyModel(t.Context(), modelVerifyOptions{model: model, signature: bundle, root: root, subject: "intermediate-ca"})
	if err != nil || res.Verdict != schemas.Failed || res.Signer != "intermediate-ca" || len(res.Differences) != 2 {
		t.Errorf("got %+v, %v", res, err)
	}
	for name, c := range map[string]struct {
		opt   modelVerifyOptions
		code  int
		words string
	}{
		"somebody else's":       {modelVerifyOptions{root: root, subject: "somebody"}, exitFalse, `functionary: got a certificate of ["intermediate-ca"]`},
		"another authority":     {modelVerifyOptions{root: shared.Path(t, "vectors", "model-signing-spec", "test-vectors", "v1.0", "valid", "key.bundle.json"), subject: "intermediate-ca"}, exitUndecided, "holds no certificate"},
		"a signature by a key":  {modelVerifyOptions{root: leaf, subject: "intermediate-ca", signature: shared.Path(t, "vectors", "model-signing-spec", "test-vectors", "v1.0", "valid", "key.bundle.json")}, exitFalse, "0 certificates"},
		"a keyless signature":   {modelVerifyOptions{root: root, subject: "intermediate-ca", signature: shared.Path(t, "vectors", "model-signing-spec", "test-vectors", "v1.0", "valid", "sigstore.bundle.json")}, exitFalse, "0 certificates"},
		"nobody to be believed": {modelVerifyOptions{}, exitUndecided, "nothing can be decided"},
	} {
		t.Run(name, func(t *testing.T) {
			c.opt.model = model
			if c.opt.signature == "" {
				c.opt.signature = bundle
			}
			_, err := verifyModel(t.Context(), c.opt)
			if err == nil || exitCode(err) != c.code || !strings.Contains(err.Error(), c.words) {
				t.Errorf("got %v with exit code %d, want %d and %q", err, exitCode(err), c.code, c.words)
			}
		})
	}
}
