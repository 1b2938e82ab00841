package main

import (
	"context"
	"crypto"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/attest/sigstore"
	"github.com/weighmaster/weighmaster/attest/sigstore/virtual"
	"github.com/weighmaster/weighmaster/schemas"
)

const (
	ciIssuer  = "https://issuer.example"
	ciSubject = "https://ci.example/owner/repository/build.yml@refs/heads/main"
)

// trustFolder writes a trust file and trusted roots, and returns the trust file's path.
func trustFolder(t *testing.T, d *virtual.Deployment, functionaries, rest string) string {
	t.Helper()
	_, vkey, err := keys.GenerateLogKey("example.org/log")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "roots"), 0o755); err != nil {
		t.Fatal(err)
	}
	body := "schema: " + schemas.TrustURI + "\nfunctionaries:\n" + functionaries + "log:\n  origin: example.org/log\n  key: " + vkey + "\n" + rest
	for name, doc := range map[string][]byte{
		"trust.yaml": []byte(body), "roots/ours.json": d.TrustedRoot(t, virtual.RootOptions{}),
		"roots/strange.json": virtual.New(t).TrustedRoot(t, virtual.RootOptions{}), "roots/broken.json": []byte(`{"mediaType":1,"mediaType":2}`),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), doc, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "trust.yaml")
}

func keylessClaim(t *testing.T, d *virtual.Deployment) []byte {
	t.Helper()
	signer, err := sigstore.NewKeylessSigner(sigstore.KeylessOptions{
		Services: sigstore.Services{Certificates: virtual.Identity{D: d, Issuer: ciIssuer, Subject: ciSubject, At: d.Now}, Log: virtual.Log{D: d, At: d.Now}},
		Issuer:   ciIssuer, Subject: ciSubject, TrustedRoot: d.Material(t, virtual.RootOptions{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := attest.NewStatement([]*attest.ResourceDescriptor{{Name: "m", Digest: map[string]string{"sha256": strings.Repeat("ab", 32)}}}, "https://example.org/said/v1", &structpb.Struct{})
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := signer.Sign(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

// The trusted root that a trust file names is applied, from the trust file's folder.
func TestTrustedRootIsApplied(t *testing.T) {
	d := virtual.New(t)
	bundle := keylessClaim(t, d)
	ci := "  - name: ci\n    issuer: " + ciIssuer + "\n    subject: " + ciSubject + "\n"
	for _, c := range []struct{ name, rest, reading, refusing string }{
		{"as it should be", "trustedRoot: roots/ours.json\n", "", ""},
		{"another deployment's root", "trustedRoot: roots/strange.json\n", "", "logEntry"},
		{"no root", "", "trustedRoot", ""},
		{"a root that is not there", "trustedRoot: roots/none.json\n", "none.json", ""},
		{"a root with a key twice", "trustedRoot: roots/broken.json\n", "twice", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := trustFolder(t, d, ci, c.rest)
			trust, err := readTrust(path)
			var v attest.Verifier
			if err == nil {
				v, err = claimVerifier(trust, path)
			}
			if c.reading != "" {
				if err == nil || exitCode(err) != exitUndecided || !strings.Contains(err.Error(), c.reading) {
					t.Errorf("got %v, want exit %d and %q", err, exitUndecided, c.reading)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			claim, err := v.Verify(context.Background(), bundle, time.Now())
			if c.refusing != "" {
				if err == nil || !strings.Contains(err.Error(), c.refusing) {
					t.Errorf("got %v, want it refused for %q", err, c.refusing)
				}
			} else if err != nil || claim.Functionary() != "ci" {
				t.Errorf("claim of %q, %v", claim.Functionary(), err)
			}
		})
	}
}

// A trust file that would let one key count twice, or nothing at all, is refused.
func TestTrustFilesThatCannotBe(t *testing.T) {
	d := virtual.New(t)
	pemOf := func(key crypto.Signer) string {
		doc, err := keys.EncodePublic(key.Public())
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(strings.TrimSpace(string(doc)), "\n", "\n          ")
	}
	fresh := func() string {
		key, err := keys.Generate(keys.ECDSA)
		if err != nil {
			t.Fatal(err)
		}
		return pemOf(key)
	}
	one, two := fresh(), fresh()
	single := func(name, pem string) string { return "  - name: " + name + "\n    key: |\n          " + pem + "\n" }
	list := func(name string, pems ...string) string {
		s := "  - name: " + name + "\n    keys:\n"
		for _, p := range pems {
			s += "      - key: |\n          " + p + "\n"
		}
		return s
	}
	for _, c := range []struct{ name, functionaries, words string }{
		{"two that rotate", list("a", one, two), ""},
		{"one key under two names", single("a", one) + single("b", one), "the key of a"},
		{"one key in a list and alone", list("a", one, two) + single("b", two), "the key of a"},
		{"one key twice in a list", list("a", one, one) + "        notAfter: 2026-01-01T00:00:00Z\n", "the key of a"},
		{"one name twice", single("a", one) + single("a", two), "the name twice"},
		{"a key and keys", single("a", one) + "    keys:\n      - key: |\n          " + two + "\n", "key"},
		{"no keys", "  - name: a\n    keys: []\n", "keys"},
		{"a period that never was", list("a", one) + "        notBefore: 2026-01-01T00:00:00Z\n        notAfter: 2026-01-01T00:00:00Z\n", "never sign"},
		{"a period beside the list", list("a", one) + "    notAfter: 2026-01-01T00:00:00Z\n", "Either key, or keys"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := trustFolder(t, d, c.functionaries, "")
			trust, err := readTrust(path)
			if err == nil {
				_, err = claimVerifier(trust, path)
			}
			if c.words == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("got %v, want an error with %q", err, c.words)
			}
		})
	}
}
