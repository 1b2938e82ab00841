package sigstore_test

import (
	"context"
	"crypto"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/attest/sigstore"
	"github.com/weighmaster/weighmaster/attest/sigstore/virtual"
)

const saidType = "https://example.org/said/v1"

// cosign runs the real cosign, away from the network and the user's settings.
type cosign struct {
	t       *testing.T
	program string
	dir     string
	env     []string
}

func newCosign(t *testing.T) cosign {
	t.Helper()
	program := os.Getenv("WEIGHMASTER_COSIGN")
	if program == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("WEIGHMASTER_COSIGN is not set: run eval \"$(.ci/interop/install-cosign FOLDER)\"")
		}
		t.Skip("WEIGHMASTER_COSIGN is not set: no cosign to compare with")
	}
	dir := t.TempDir()
	return cosign{t, program, dir, append(os.Environ(), "COSIGN_PASSWORD=word", "HOME="+dir, "TUF_ROOT="+filepath.Join(dir, "tuf"),
		"HTTPS_PROXY=http://127.0.0.1:1", "NO_PROXY=127.0.0.1,localhost")}
}

// run gives what cosign said and whether it said yes.
func (c cosign) run(args ...string) (string, bool) {
	c.t.Helper()
	cmd := exec.Command(c.program, args...)
	cmd.Dir, cmd.Env = c.dir, c.env
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

func (c cosign) must(args ...string) {
	c.t.Helper()
	if out, ok := c.run(args...); !ok {
		c.t.Fatalf("cosign %s: %s", strings.Join(args, " "), out)
	}
}

func (c cosign) write(name string, body []byte) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), body, 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func (c cosign) read(name string) []byte {
	c.t.Helper()
	body, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		c.t.Fatal(err)
	}
	return body
}

// about is a Statement over a file's bytes.
func about(t *testing.T, name string, file []byte) *attest.Statement {
	t.Helper()
	sum := sha256.Sum256(file)
	s, err := attest.NewStatement([]*attest.ResourceDescriptor{{Name: name, Digest: map[string]string{"sha256": hex.EncodeToString(sum[:])}}},
		saidType, &structpb.Struct{Fields: map[string]*structpb.Value{"n": structpb.NewNumberValue(1)}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func publicPEM(t *testing.T, pub crypto.PublicKey) []byte {
	t.Helper()
	doc, err := keys.EncodePublic(pub)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// saysNo asserts that cosign refused, and for what.
func (c cosign) saysNo(words string, args ...string) {
	c.t.Helper()
	if out, ok := c.run(args...); ok || !strings.Contains(out, words) {
		c.t.Errorf("cosign %s: accepted %v, want it refused for %q:\n%s", strings.Join(args, " "), ok, words, out)
	}
}

func TestCosignVerifiesOurBundles(t *testing.T) {
	c := newCosign(t)
	file := []byte("weights")
	c.write("model.gguf", file)
	c.write("other.gguf", []byte("other weights"))
	c.write("stranger.pub", publicPEM(t, newKey(t, keys.ECDSA).Public()))
	for _, algorithm := range []string{keys.ECDSA, keys.ECDSAP384, keys.Ed25519} {
		t.Run(algorithm, func(t *testing.T) {
			c.t = t
			key := newKey(t, algorithm)
			signer, err := sigstore.NewSigner(key)
			if err != nil {
				t.Fatal(err)
			}
			bundle, err := signer.Sign(context.Background(), about(t, "model.gguf", file))
			if err != nil {
				t.Fatal(err)
			}
			c.write("bundle.json", bundle)
			c.write("our.pub", publicPEM(t, key.Public()))
			ask := func(bundle, key, predicateType, file string) []string {
				return []string{"verify-blob-attestation", "--bundle", bundle, "--key", key, "--type", predicateType, "--insecure-ignore-tlog=true", file}
			}
			if algorithm == keys.ECDSAP384 {
				// cosign verifies no P-384 key's signature, not even its own: see TestCosignSignsForUs.
				c.saysNo("could not verify envelope", ask("bundle.json", "our.pub", saidType, "model.gguf")...)
				return
			}
			c.must(ask("bundle.json", "our.pub", saidType, "model.gguf")...)
			c.saysNo("predicate", ask("bundle.json", "our.pub", "https://example.org/other/v1", "model.gguf")...)
			c.saysNo("digest", ask("bundle.json", "our.pub", saidType, "other.gguf")...)
			c.saysNo("signature", ask("bundle.json", "stranger.pub", saidType, "model.gguf")...)
			c.write("tampered.json", tamperedPayload(t, bundle))
			c.saysNo("signature", ask("tampered.json", "our.pub", saidType, "model.gguf")...)
		})
	}
}

// tamperedPayload changes one number in what was signed.
func tamperedPayload(t *testing.T, bundle []byte) []byte {
	t.Helper()
	return editPayload(t, bundle, func(payload string) string { return strings.Replace(payload, `"n":1`, `"n":2`, 1) })
}

// Keys that cosign makes sign for us, and keys that we make sign for cosign.
func TestCosignKeys(t *testing.T) {
	c := newCosign(t)
	c.must("generate-key-pair")
	theirs, err := keys.Load(c.read("cosign.key"), func() ([]byte, error) { return []byte("word"), nil })
	if err != nil {
		t.Fatal(err)
	}
	pub, err := keys.LoadPublic(c.read("cosign.pub"))
	if err != nil || !pub.(interface{ Equal(crypto.PublicKey) bool }).Equal(theirs.Public()) {
		t.Errorf("cosign's two files do not belong together: %v", err)
	}
	if _, err := keys.Load(c.read("cosign.key"), func() ([]byte, error) { return []byte("other"), nil }); err == nil || !strings.Contains(err.Error(), "wrong password") {
		t.Errorf("the wrong password for cosign's key gave %v", err)
	}
	// Under an empty password, as many have them, it is read with an empty password.
	c.env = append(c.env, "COSIGN_PASSWORD=")
	c.must("generate-key-pair", "--output-key-prefix", "open")
	if _, err := keys.Load(c.read("open.key"), func() ([]byte, error) { return nil, nil }); err != nil {
		t.Errorf("cosign's key under an empty password: %v", err)
	}
}

// What cosign signs by a key becomes a Claim, and its tampered copy does not.
func TestCosignSignsForUs(t *testing.T) {
	c := newCosign(t)
	file := []byte("weights")
	c.write("model.gguf", file)
	c.write("predicate.json", []byte(`{"n":1}`))
	c.write("offline.json", []byte(`{"mediaType":"application/vnd.dev.sigstore.signingconfig.v0.2+json","rekorTlogConfig":{},"tsaConfig":{}}`))
	payload, err := attest.Encode(about(t, "model.gguf", file))
	if err != nil {
		t.Fatal(err)
	}
	c.write("statement.json", payload)
	for _, algorithm := range []string{keys.ECDSA, keys.ECDSAP384, keys.Ed25519} {
		t.Run(algorithm, func(t *testing.T) {
			c.t = t
			key := newKey(t, algorithm)
			sealed, err := keys.Encode(key, []byte("word"))
			if err != nil {
				t.Fatal(err)
			}
			c.write("our.key", sealed)
			c.must("attest-blob", "--key", "our.key", "--statement", "statement.json", "--signing-config", "offline.json", "--bundle", "theirs.json", "--yes")
			v := trusting(t, sigstore.Functionary{Name: "producer", PublicKey: key.Public()})
			claim, err := v.Verify(context.Background(), c.read("theirs.json"), now)
			c.write("our.pub", publicPEM(t, key.Public()))
			own := []string{"verify-blob-attestation", "--bundle", "theirs.json", "--key", "our.pub", "--type", saidType, "--insecure-ignore-tlog=true", "model.gguf"}
			switch algorithm {
			case keys.ECDSA:
				c.must(own...)
			case keys.ECDSAP384: // it signs with SHA-384, as we do, and verifies with SHA-256
				c.saysNo("could not verify envelope", own...)
			case keys.Ed25519: // it signs with Ed25519ph and verifies with Ed25519, as DSSE's readers do
				c.saysNo("could not verify envelope", own...)
				wantRefused(t, err, attest.CheckSignature, "does not verify")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if claim.Functionary() != "producer" || claim.PredicateType() != saidType || string(claim.Predicate()) != `{"n":1}` {
				t.Errorf("claim of %s: %s %s", claim.Functionary(), claim.PredicateType(), claim.Predicate())
			}
			_, err = v.Verify(context.Background(), tamperedPayload(t, c.read("theirs.json")), now)
			wantRefused(t, err, attest.CheckSignature, "does not verify")
			_, err = trusting(t, sigstore.Functionary{Name: "x", PublicKey: newKey(t, algorithm).Public()}).Verify(context.Background(), c.read("theirs.json"), now)
			wantRefused(t, err, attest.CheckFunctionary, "hint")

			// From a predicate alone cosign makes a Statement v0.1, which is not the one we read.
			c.must("attest-blob", "--key", "our.key", "--predicate", "predicate.json", "--type", saidType, "--signing-config", "offline.json", "--bundle", "old.json", "--yes", "model.gguf")
			_, err = v.Verify(context.Background(), c.read("old.json"), now)
			wantRefused(t, err, attest.CheckType, "--statement")
		})
	}
}

// cosign verifies what we sign with a certificate, under a given trusted root.
func TestCosignVerifiesOurCertificates(t *testing.T) {
	c := newCosign(t)
	d := virtual.New(t)
	opts := deployed(t, d)
	file := []byte("weights")
	signer, err := sigstore.NewKeylessSigner(opts)
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := signer.Sign(context.Background(), about(t, "model.gguf", file))
	if err != nil {
		t.Fatal(err)
	}
	c.write("model.gguf", file)
	c.write("other.gguf", []byte("other weights"))
	c.write("bundle.json", bundle)
	c.write("tampered.json", tamperedPayload(t, bundle))
	c.write("root.json", d.TrustedRoot(t, virtual.RootOptions{}))
	c.write("strange.json", virtual.New(t).TrustedRoot(t, virtual.RootOptions{}))
	ask := func(bundle, root, identity, oidc, predicateType, file string) []string {
		return []string{"verify-blob-attestation", "--bundle", bundle, "--trusted-root", root, "--certificate-identity", identity, "--certificate-oidc-issuer", oidc,
			"--insecure-ignore-sct=true", "--use-signed-timestamps", "--type", predicateType, file}
	}
	c.must(ask("bundle.json", "root.json", builder, issuer, saidType, "model.gguf")...)
	c.saysNo("expected SAN value", ask("bundle.json", "root.json", builder+"x", issuer, saidType, "model.gguf")...)
	c.saysNo("issuer", ask("bundle.json", "root.json", builder, issuer+"x", saidType, "model.gguf")...)
	c.saysNo("predicate", ask("bundle.json", "root.json", builder, issuer, "https://example.org/other/v1", "model.gguf")...)
	c.saysNo("digest", ask("bundle.json", "root.json", builder, issuer, saidType, "other.gguf")...)
	c.saysNo("log entries", ask("bundle.json", "strange.json", builder, issuer, saidType, "model.gguf")...)
	c.saysNo("payload hash", ask("tampered.json", "root.json", builder, issuer, saidType, "model.gguf")...)
}

// What cosign signs with a certificate, a log and a timestamp becomes a Claim,
// all on the loopback.
func TestCosignSignsWithACertificateForUs(t *testing.T) {
	c := newCosign(t)
	d := virtual.New(t)
	const person = "person@example.org"
	url := virtual.Identity{D: d, Issuer: issuer, Subject: person, At: d.Now}.Serve(t)
	payload, err := attest.Encode(about(t, "model.gguf", []byte("weights")))
	if err != nil {
		t.Fatal(err)
	}
	c.write("statement.json", payload)
	c.write("services.json", virtual.SigningConfig(url))
	c.write("root.json", d.TrustedRoot(t, virtual.RootOptions{}))
	c.must("attest-blob", "--statement", "statement.json", "--signing-config", "services.json", "--trusted-root", "root.json", "--identity-token", virtual.Token(person), "--bundle", "theirs.json", "--yes")

	trust := func(issuer, subject string) attest.Verifier {
		v, err := sigstore.NewVerifier([]sigstore.Functionary{{Name: "person", Issuer: issuer, Subject: subject}}, sigstore.Options{TrustedRoot: d.Material(t, virtual.RootOptions{})})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	claim, err := trust(issuer, person).Verify(context.Background(), c.read("theirs.json"), now)
	if err != nil {
		t.Fatal(err)
	}
	if claim.Functionary() != "person" || !claim.SignedAt().Equal(d.Now.Add(time.Minute)) || string(claim.Predicate()) != `{"n":1}` {
		t.Errorf("claim of %s at %v: %s", claim.Functionary(), claim.SignedAt(), claim.Predicate())
	}
	_, err = trust(issuer, "other@example.org").Verify(context.Background(), c.read("theirs.json"), now)
	wantRefused(t, err, attest.CheckFunctionary, person)
	_, err = trust(issuer, person).Verify(context.Background(), tamperedPayload(t, c.read("theirs.json")), now)
	wantRefused(t, err, attest.CheckLogEntry, "payload hash")
}

// Timestamps (RFC 3161) that we ask for count for cosign, and those that cosign
// asks for vouch for a key's time here.
func TestCosignAndTimestamps(t *testing.T) {
	c := newCosign(t)
	d := virtual.New(t)
	key := newKey(t, keys.ECDSA)
	material := d.Material(t, virtual.RootOptions{})
	file := []byte("weights")
	signer, err := sigstore.NewSignerWith(key, sigstore.SignerOptions{Timestamps: virtual.Clock{D: d, At: d.Now.AddDate(-1, 0, 0)}, TrustedRoot: material})
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := signer.Sign(context.Background(), about(t, "model.gguf", file))
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := keys.Encode(key, []byte("word"))
	if err != nil {
		t.Fatal(err)
	}
	payload, err := attest.Encode(about(t, "model.gguf", file))
	if err != nil {
		t.Fatal(err)
	}
	url := virtual.Identity{D: d, At: d.Now.AddDate(-2, 0, 0)}.Serve(t)
	for name, body := range map[string][]byte{
		"model.gguf": file, "bundle.json": bundle, "our.key": sealed, "our.pub": publicPEM(t, key.Public()), "statement.json": payload,
		"root.json": d.TrustedRoot(t, virtual.RootOptions{}), "strange.json": virtual.New(t).TrustedRoot(t, virtual.RootOptions{}),
		"stamps.json": virtual.TimestampConfig(url),
	} {
		c.write(name, body)
	}
	ask := func(bundle, root string) []string {
		return []string{"verify-blob-attestation", "--bundle", bundle, "--key", "our.pub", "--trusted-root", root, "--use-signed-timestamps", "--insecure-ignore-tlog=true", "--type", saidType, "model.gguf"}
	}
	c.must(ask("bundle.json", "root.json")...)
	c.saysNo("timestamp", ask("bundle.json", "strange.json")...)

	c.must("attest-blob", "--key", "our.key", "--statement", "statement.json", "--signing-config", "stamps.json", "--bundle", "theirs.json", "--yes")
	stampedAt := d.Now.AddDate(-2, 0, 0).Add(time.Minute)
	v, err := sigstore.NewVerifier([]sigstore.Functionary{{Name: "producer", PublicKey: key.Public(), NotAfter: stampedAt.Add(time.Second)}}, sigstore.Options{TrustedRoot: material})
	if err != nil {
		t.Fatal(err)
	}
	claim, err := v.Verify(context.Background(), c.read("theirs.json"), now)
	if err != nil || !claim.SignedAt().Equal(stampedAt) {
		t.Errorf("vouched %v, %v; want %v", claim.SignedAt(), err, stampedAt)
	}
	v, err = sigstore.NewVerifier([]sigstore.Functionary{{Name: "producer", PublicKey: key.Public(), NotAfter: stampedAt}}, sigstore.Options{TrustedRoot: material})
	if err != nil {
		t.Fatal(err)
	}
	_, err = v.Verify(context.Background(), c.read("theirs.json"), now)
	wantRefused(t, err, attest.CheckValidity, "expired")
}
