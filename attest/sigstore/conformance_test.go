package sigstore

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sigbundle "github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/fixtures/shared"
)

const (
	conformanceIssuer  = "https://token.actions.githubusercontent.com"
	conformanceSubject = "https://github.com/sigstore-conformance/extremely-dangerous-public-oidc-beacon/.github/workflows/extremely-dangerous-oidc-beacon.yml@refs/heads/main"
)

// vector is one folder of the sigstore-conformance suite.
type vector struct {
	folder string
	fail   bool // its name says that it must fail
	bundle []byte
}

func vectors(t *testing.T) (list []vector, root string) {
	t.Helper()
	root = shared.Path(t, "vectors", "sigstore-conformance")
	folders, err := filepath.Glob(filepath.Join(root, "assets", "bundle-verify", "*", "bundle.sigstore.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		body, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		folder := filepath.Dir(f)
		list = append(list, vector{folder, strings.HasSuffix(folder, "_fail"), body})
	}
	if len(list) < 60 {
		t.Fatalf("got %d conformance vectors, want at least 60", len(list))
	}
	return list, root
}

// file reads a file of the vector, or the default where it has none of its own.
func (v vector) file(t *testing.T, name, fallback string) []byte {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(v.folder, name))
	if os.IsNotExist(err) {
		if body, err = os.ReadFile(fallback); os.IsNotExist(err) {
			return []byte(fallback)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// trusting builds our verifier with the trust that the vector prescribes.
func (v vector) trusting(t *testing.T, root string) (*verifier, error) {
	t.Helper()
	tr, err := LoadTrustedRoot(v.file(t, "trusted_root.json", filepath.Join(root, "trusted_root.public-good.json")))
	if err != nil {
		return nil, err
	}
	if pem, err := os.ReadFile(filepath.Join(v.folder, "key.pub")); err == nil {
		pub, err := keys.LoadPublic(pem)
		if err != nil {
			return nil, err
		}
		return newVerifier([]Functionary{{Name: "key", PublicKey: pub}}, Options{TrustedRoot: tr})
	}
	issuer := strings.TrimSpace(string(v.file(t, "issuer", conformanceIssuer)))
	subject := strings.TrimSpace(string(v.file(t, "identity", conformanceSubject)))
	return newVerifier([]Functionary{{Name: "ci", Issuer: issuer, Subject: subject}}, Options{TrustedRoot: tr})
}

// Vectors with a DSSE envelope go the whole way through our verifier.
func TestConformanceEnvelopes(t *testing.T) {
	list, root := vectors(t)
	accepted, refusedCount := 0, 0
	for _, v := range list {
		if !bytes.Contains(v.bundle, []byte(`"dsseEnvelope"`)) {
			continue
		}
		t.Run(filepath.Base(v.folder), func(t *testing.T) {
			ours, err := v.trusting(t, root)
			if err == nil {
				_, err = ours.Verify(context.Background(), v.bundle, time.Now())
			}
			switch {
			case v.fail && err == nil:
				t.Error("accepted, want it refused")
			case v.fail:
				t.Log(err)
				refusedCount++
			case err != nil:
				t.Errorf("refused: %v", err)
			default:
				accepted++
			}
		})
	}
	if accepted < 3 || refusedCount < 9 {
		t.Errorf("%d vectors accepted and %d refused, want at least 3 and 9", accepted, refusedCount)
	}
}

// Vectors with a bare message signature must be refused by our verifier, which
// takes Statements only. The settings below it, trusted root, log entry, time,
// identity and key, are the same ones, and are held against these vectors too.
func TestConformanceMessageSignatures(t *testing.T) {
	list, root := vectors(t)
	accepted, refusedCount := 0, 0
	for _, v := range list {
		if bytes.Contains(v.bundle, []byte(`"dsseEnvelope"`)) {
			continue
		}
		t.Run(filepath.Base(v.folder), func(t *testing.T) {
			ours, err := v.trusting(t, root)
			if err == nil {
				_, whole := ours.Verify(context.Background(), v.bundle, time.Now())
				if whole == nil {
					t.Fatal("a bundle without a Statement gave a claim")
				}
				err = v.below(t, ours, root)
			}
			switch {
			case v.fail && err == nil:
				t.Error("accepted, want it refused")
			case v.fail:
				t.Log(err)
				refusedCount++
			case err != nil:
				t.Errorf("refused: %v", err)
			default:
				accepted++
			}
		})
	}
	if accepted < 12 || refusedCount < 30 {
		t.Errorf("%d vectors accepted and %d refused, want at least 12 and 30", accepted, refusedCount)
	}
}

// below runs the sigstore-go verifiers that ours configured, over the artifact.
func (v vector) below(t *testing.T, ours *verifier, root string) error {
	if err := attest.CheckJSON(v.bundle); err != nil {
		return err
	}
	var b sigbundle.Bundle
	if err := b.UnmarshalJSON(v.bundle); err != nil {
		return err
	}
	artifact := verify.WithArtifact(bytes.NewReader(v.file(t, "artifact", filepath.Join(root, "assets", "bundle-verify", "a.txt"))))
	if len(ours.identities) > 0 {
		_, err := ours.certified.Verify(&b, verify.NewPolicy(artifact, verify.WithCertificateIdentity(ours.identities[0].identity)))
		return err
	}
	for hint := range ours.byHint { // the suite's key is given outside the bundle, whatever its hint
		b.VerificationMaterial.GetPublicKey().Hint = hint
	}
	_, err := ours.keyed.Verify(&b, verify.NewPolicy(artifact, verify.WithKey()))
	return err
}
