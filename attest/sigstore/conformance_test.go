package sigstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
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

	// clientVariable makes the test binary the suite's client.
	clientVariable = "WEIGHMASTER_CONFORMANCE_CLIENT"
)

func TestMain(m *testing.M) {
	if os.Getenv(clientVariable) == "" {
		os.Exit(m.Run())
	}
	if err := client(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// client is a client of the sigstore-conformance suite, by its protocol:
// verify-bundle --bundle B [--certificate-identity S --certificate-oidc-issuer I | --key K] --trusted-root R FILE
func client(args []string) error {
	if len(args) == 0 || args[0] != "verify-bundle" {
		return fmt.Errorf("got %q, want verify-bundle", args)
	}
	flags := flag.NewFlagSet("verify-bundle", flag.ContinueOnError)
	bundle := flags.String("bundle", "", "")
	subject := flags.String("certificate-identity", "", "")
	issuer := flags.String("certificate-oidc-issuer", "", "")
	key := flags.String("key", "", "")
	rootFile := flags.String("trusted-root", "", "")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	doc, err := os.ReadFile(*rootFile)
	if err != nil {
		return err
	}
	tr, err := LoadTrustedRoot(doc)
	if err != nil {
		return err
	}
	f := Functionary{Name: "signer", Issuer: *issuer, Subject: *subject}
	if *key != "" {
		if doc, err = os.ReadFile(*key); err != nil {
			return err
		}
		if f.PublicKey, err = keys.LoadPublic(doc); err != nil {
			return err
		}
	}
	v, err := newVerifier([]Functionary{f}, Options{TrustedRoot: tr})
	if err != nil {
		return err
	}
	body, err := os.ReadFile(*bundle)
	if err != nil {
		return err
	}
	artifact, err := os.ReadFile(flags.Arg(0))
	if err != nil {
		return err
	}
	return clientVerify(v, body, artifact)
}

// clientVerify lets a bundle through our verifier. A bundle with a bare message
// signature must be refused by it, which takes Statements only; everything that
// our verifier does about its signature is then done over the artifact.
func clientVerify(v *verifier, body, artifact []byte) error {
	claim, err := v.Verify(context.Background(), body, time.Now())
	var why *attest.VerificationError
	switch {
	case err == nil:
		return inSubjects(claim.Statement(), artifact)
	case !errors.As(err, &why) || why.Check != attest.CheckEnvelope || claim.Valid():
		return err
	}
	var b sigbundle.Bundle
	if err := b.UnmarshalJSON(body); err != nil {
		return refused(attest.CheckBundle, "another bundle", "a complete Sigstore bundle", err)
	}
	for hint := range v.byHint { // the suite's key is given outside the bundle, whatever its hint
		if k := b.VerificationMaterial.GetPublicKey(); k != nil {
			k.Hint = hint
		}
	}
	_, err = v.signed(&b, func() verify.ArtifactPolicyOption { return verify.WithArtifact(bytes.NewReader(artifact)) }, time.Now())
	return err
}

func inSubjects(s *attest.Statement, artifact []byte) error {
	sum := sha256.Sum256(artifact)
	for _, subject := range s.GetSubject() {
		if subject.GetDigest()["sha256"] == hex.EncodeToString(sum[:]) {
			return nil
		}
	}
	return refused(attest.CheckSubject, fmt.Sprintf("an artifact with the sha256 %x", sum), "one of the subjects", nil)
}

// arguments gives the suite's command line for the vector in a folder.
func arguments(folder, root string) []string {
	or := func(name, fallback string) string {
		if _, err := os.Stat(filepath.Join(folder, name)); err == nil {
			return filepath.Join(folder, name)
		}
		return fallback
	}
	text := func(name, fallback string) string {
		if body, err := os.ReadFile(filepath.Join(folder, name)); err == nil {
			return strings.TrimSpace(string(body))
		}
		return fallback
	}
	args := []string{"verify-bundle", "--bundle", filepath.Join(folder, "bundle.sigstore.json"),
		"--trusted-root", or("trusted_root.json", filepath.Join(root, "trusted_root.public-good.json"))}
	if key := or("key.pub", ""); key != "" {
		args = append(args, "--key", key)
	} else {
		args = append(args, "--certificate-identity", text("identity", conformanceSubject), "--certificate-oidc-issuer", text("issuer", conformanceIssuer))
	}
	return append(args, or("artifact", filepath.Join(root, "assets", "bundle-verify", "a.txt")))
}

// reason says for which check, and in which words, a vector must be refused.
type reason struct {
	check attest.Check // empty: before there is a verifier, in the trusted root
	words string
}

func TestConformance(t *testing.T) {
	root := shared.Path(t, "vectors", "sigstore-conformance")
	folders, err := filepath.Glob(filepath.Join(root, "assets", "bundle-verify", "*", "bundle.sigstore.json"))
	if err != nil {
		t.Fatal(err)
	}
	accepted, refusedCount := 0, 0
	for _, f := range folders {
		folder := filepath.Dir(f)
		name := filepath.Base(folder)
		t.Run(name, func(t *testing.T) {
			err := client(arguments(folder, root))
			if !strings.HasSuffix(name, "_fail") {
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				accepted++
				return
			}
			if err == nil {
				t.Fatal("accepted, want it refused")
			}
			t.Log(err)
			want, ok := reasons[name]
			if !ok {
				t.Fatal("the table of reasons does not have it")
			}
			var why *attest.VerificationError
			check := attest.Check("")
			if errors.As(err, &why) {
				check = why.Check
			}
			if check != want.check || !strings.Contains(err.Error(), want.words) {
				t.Errorf("refused for %q, want %q: …%s…", check, want.check, want.words)
			}
			refusedCount++
		})
	}
	t.Logf("%d vectors: %d accepted, %d refused for the right reason", accepted+refusedCount, accepted, refusedCount)
	if accepted < 20 || refusedCount < len(reasons) {
		t.Errorf("%d vectors accepted and %d refused, want at least 20 and %d", accepted, refusedCount, len(reasons))
	}
}

// reasons has every vector that must fail. Where the log's entry is the first
// thing that contradicts a tampered bundle, that is the reason.
var reasons = map[string]reason{
	"bundle-empty-certificate-chain_fail":                       {attest.CheckBundle, "missing required checkpoint"},
	"bundle-from-wrong-instance_fail":                           {attest.CheckLogEntry, "0 < 1"},
	"bundle-invalid-base64-signature_fail":                      {attest.CheckBundle, "at /messageSignature/signature: got"},
	"bundle-malformed-json_fail":                                {attest.CheckBundle, "unexpected EOF"},
	"bundle-negative-log-index_fail":                            {attest.CheckBundle, "transaction log entry"},
	"bundle-unknown-version_fail":                               {attest.CheckBundle, "version=99.9"},
	"bundle-with-root-cert_fail":                                {attest.CheckBundle, "missing required checkpoint"}, // see TestConformanceRepaired
	"checkpoint-bad-keyhint_fail":                               {attest.CheckLogEntry, "signature on checkpoint did not verify"},
	"checkpoint-wrong-roothash_fail":                            {attest.CheckLogEntry, "root hash does not match signed tree head"},
	"dsse-invalid-sig_fail":                                     {attest.CheckLogEntry, "signature does not match"},
	"dsse-mismatch-envelope_fail":                               {attest.CheckLogEntry, "signature does not match"},
	"dsse-mismatch-sig_fail":                                    {attest.CheckLogEntry, "signature does not match"},
	"inclusion-proof-corrupted-hash_fail":                       {attest.CheckLogEntry, "calculated root"},
	"incorrect-public-key_fail":                                 {attest.CheckBundle, "invalid signature when validating ASN.1"},
	"integrated-time-in-future_fail":                            {attest.CheckLogEntry, "integrated time outside certificate validity"},
	"intoto-expired-certificate_fail":                           {attest.CheckLogEntry, "integrated time outside certificate validity"},
	"intoto-log-entry-mismatch_fail":                            {attest.CheckBundle, "could not verify envelope"},
	"intoto-missing-inclusion-proof_fail":                       {attest.CheckBundle, "inclusion proof missing"},
	"intoto-set-outside-signing-cert-validity_fail":             {attest.CheckLogEntry, "integrated time outside certificate validity"},
	"intoto-tsa-timestamp-outside-cert-validity_fail":           {attest.CheckCertificate, "does not verify at 2023-02-02"},
	"invalid-checkpoint-signature_fail":                         {attest.CheckLogEntry, "signature on checkpoint did not verify"},
	"invalid-ct-key_fail":                                       {attest.CheckCertificate, "signed certificate timestamp"},
	"invalid-inclusion-proof_fail":                              {attest.CheckBundle, "missing required checkpoint"},
	"managed-key-no-key_fail":                                   {attest.CheckFunctionary, "a key that the trust file names"},
	"managed-key-wrong-key_fail":                                {"", "point not on curve"}, // see TestConformanceRepaired
	"message-digest-mismatch_fail":                              {attest.CheckLogEntry, "does not match artifact"},
	"rekor2-checkpoint-missing-log-signature_fail":              {attest.CheckLogEntry, "malformed note"},
	"rekor2-checkpoint-missing-origin_fail":                     {attest.CheckLogEntry, "invalid signature for key"},
	"rekor2-checkpoint-missing-root-hash_fail":                  {attest.CheckLogEntry, "invalid signature for key"},
	"rekor2-checkpoint-missing-size_fail":                       {attest.CheckLogEntry, "invalid signature for key"},
	"rekor2-checkpoint-no-matching-signature_fail":              {attest.CheckLogEntry, "no verifiable signatures"},
	"rekor2-dsse-invalid-sig_fail":                              {attest.CheckLogEntry, "verifying inclusion: calculated root"},
	"rekor2-dsse-mismatch-envelope_fail":                        {attest.CheckLogEntry, "verifying inclusion: calculated root"},
	"rekor2-dsse-mismatch-sig_fail":                             {attest.CheckLogEntry, "verifying inclusion: calculated root"},
	"rekor2-no-inclusion-proof_fail":                            {attest.CheckBundle, "inclusion proof missing"},
	"rekor2-no-timestamp_fail":                                  {attest.CheckTimestamp, "no time that anybody vouches for"},
	"rekor2-timestamp-outside-trust-root-tsa-validity_fail":     {attest.CheckTimestamp, "after the validity period end"},
	"rekor2-timestamp-outside-tsa-cert-validity_fail":           {attest.CheckTimestamp, "outside of certificate validity"},
	"rekor2-timestamp-payload-mismatch_fail":                    {attest.CheckTimestamp, "hashed messages don't match"},
	"rekor2-timestamp-untrusted-tsa-with-embedded-cert_fail":    {attest.CheckTimestamp, "does not match the provided TSA certificate"},
	"rekor2-timestamp-untrusted-tsa-without-embedded-cert_fail": {attest.CheckTimestamp, "No certificate for signer"},
	"rekor2-timestamp-with-incorrect-time_fail":                 {attest.CheckBundle, "signedTimestamp: got base64 with line ends"}, // see TestConformanceRepaired
	"set-invalid-signature_fail":                                {attest.CheckLogEntry, "0 < 1"},
	"signature-mismatch_fail":                                   {attest.CheckLogEntry, "signature does not match"},
	"trust-root-tlog-missing-validity-start_fail":               {"", "missing public key validity period start"},
	"wrong-hashedrekord-artifact_fail":                          {attest.CheckLogEntry, "signature does not match"},
	"wrong-hashedrekord-cert-and-sig_fail":                      {attest.CheckLogEntry, "signature does not match"},
	"wrong-hashedrekord-entry_fail":                             {attest.CheckLogEntry, "signature does not match"},
	"wrong-material_fail":                                       {attest.CheckSignature, "invalid signature when validating ASN.1"},
}

// Some vectors have a fault that is found before the one that they are about.
// With that one mended they are refused for what they are about.
func TestConformanceRepaired(t *testing.T) {
	root := shared.Path(t, "vectors", "sigstore-conformance")
	vector := func(name string) (*verifier, []byte, map[string]any) {
		folder := filepath.Join(root, "assets", "bundle-verify", name)
		args := arguments(folder, root)
		body, err := os.ReadFile(args[2])
		if err != nil {
			t.Fatal(err)
		}
		var b map[string]any
		if err := json.Unmarshal(body, &b); err != nil {
			t.Fatal(err)
		}
		doc, err := os.ReadFile(args[4])
		if err != nil {
			t.Fatal(err)
		}
		tr, err := LoadTrustedRoot(doc)
		if err != nil {
			t.Fatal(err)
		}
		f := Functionary{Name: "signer", Issuer: conformanceIssuer, Subject: conformanceSubject}
		if strings.HasPrefix(name, "managed-key") {
			key, err := keys.Generate(keys.ECDSA)
			if err != nil {
				t.Fatal(err)
			}
			f = Functionary{Name: "signer", PublicKey: key.Public()}
		}
		v, err := newVerifier([]Functionary{f}, Options{TrustedRoot: tr})
		if err != nil {
			t.Fatal(err)
		}
		artifact, err := os.ReadFile(args[len(args)-1])
		if err != nil {
			t.Fatal(err)
		}
		return v, artifact, b
	}
	entry := func(b map[string]any) map[string]any {
		return b["verificationMaterial"].(map[string]any)["tlogEntries"].([]any)[0].(map[string]any)
	}
	for _, c := range []struct {
		name   string
		repair func(map[string]any)
		want   reason
	}{
		{"bundle-with-root-cert_fail", func(b map[string]any) { delete(entry(b), "inclusionProof") }, reason{attest.CheckBundle, "a root certificate in its chain"}},
		{"managed-key-wrong-key_fail", func(map[string]any) {}, reason{attest.CheckSignature, "does not verify"}},
		{"rekor2-timestamp-with-incorrect-time_fail", func(b map[string]any) {
			ts := b["verificationMaterial"].(map[string]any)["timestampVerificationData"].(map[string]any)["rfc3161Timestamps"].([]any)[0].(map[string]any)
			ts["signedTimestamp"] = strings.ReplaceAll(ts["signedTimestamp"].(string), "\n", "")
		}, reason{attest.CheckCertificate, "does not verify at"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, artifact, b := vector(c.name)
			c.repair(b)
			body, err := json.Marshal(b)
			if err != nil {
				t.Fatal(err)
			}
			err = clientVerify(v, body, artifact)
			var why *attest.VerificationError
			if !errors.As(err, &why) || why.Check != c.want.check || !strings.Contains(err.Error(), c.want.words) {
				t.Errorf("got %v, want it refused for %s: …%s…", err, c.want.check, c.want.words)
			}
		})
	}
}

// The client as a program: its exit status is what the suite reads.
func TestConformanceClient(t *testing.T) {
	root := shared.Path(t, "vectors", "sigstore-conformance")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for vector, want := range map[string]int{"happy-path-intoto-in-dsse-v3": 0, "managed-key-happy-path": 0, "dsse-invalid-sig_fail": 1} {
		cmd := exec.Command(self, arguments(filepath.Join(root, "assets", "bundle-verify", vector), root)...)
		cmd.Env = append(os.Environ(), clientVariable+"=1")
		out, err := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%s: exit %d (%v), want %d\n%s", vector, got, err, want, out)
		}
	}
}

// A bundle by a local key whose log entry or timestamp is not its own is
// refused, although its signature is good.
func TestConformanceLocalKeys(t *testing.T) {
	root := shared.Path(t, "vectors", "sigstore-conformance")
	folder := filepath.Join(root, "assets", "bundle-verify", "managed-key-happy-path")
	read := func(path string) []byte {
		body, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	tr, err := LoadTrustedRoot(read(filepath.Join(root, "trusted_root.public-good.json")))
	if err != nil {
		t.Fatal(err)
	}
	pub, err := keys.LoadPublic(read(filepath.Join(folder, "key.pub")))
	if err != nil {
		t.Fatal(err)
	}
	artifact := read(filepath.Join(root, "assets", "bundle-verify", "a.txt"))
	open := func(vector string) map[string]any {
		var b map[string]any
		if err := json.Unmarshal(read(filepath.Join(root, "assets", "bundle-verify", vector, "bundle.sigstore.json")), &b); err != nil {
			t.Fatal(err)
		}
		return b
	}
	material := func(b map[string]any) map[string]any { return b["verificationMaterial"].(map[string]any) }
	proof := func(b map[string]any) map[string]any {
		return material(b)["tlogEntries"].([]any)[0].(map[string]any)["inclusionProof"].(map[string]any)
	}
	ended := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		tamper func(map[string]any)
		until  time.Time
		want   reason
	}{
		{"untouched", func(map[string]any) {}, time.Time{}, reason{}},
		{"the log entry of another artifact", func(b map[string]any) {
			material(b)["tlogEntries"] = material(open("happy-path-v0.3"))["tlogEntries"]
		}, time.Time{}, reason{attest.CheckLogEntry, "signature does not match"}},
		{"a proof without a checkpoint", func(b map[string]any) { delete(proof(b), "checkpoint") }, time.Time{}, reason{attest.CheckBundle, "missing required checkpoint"}},
		{"another root hash", func(b map[string]any) {
			proof(b)["rootHash"] = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
		}, time.Time{}, reason{attest.CheckLogEntry, "root"}},
		{"the timestamp of another signature", func(b map[string]any) {
			material(b)["timestampVerificationData"] = material(open("bundle-with-sct-with-extensions"))["timestampVerificationData"]
		}, time.Time{}, reason{attest.CheckTimestamp, "unable to verify"}},
		{"a key that was retired before anybody saw the signature", func(map[string]any) {}, ended, reason{attest.CheckValidity, "expired"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := newVerifier([]Functionary{{Name: "signer", PublicKey: pub, NotAfter: c.until}}, Options{TrustedRoot: tr})
			if err != nil {
				t.Fatal(err)
			}
			b := open("managed-key-happy-path")
			c.tamper(b)
			body, err := json.Marshal(b)
			if err != nil {
				t.Fatal(err)
			}
			err = clientVerify(v, body, artifact)
			var why *attest.VerificationError
			switch {
			case c.want.check == "" && err != nil:
				t.Error(err)
			case c.want.check != "" && (!errors.As(err, &why) || why.Check != c.want.check || !strings.Contains(err.Error(), c.want.words)):
				t.Errorf("got %v, want it refused for %s: …%s…", err, c.want.check, c.want.words)
			}
		})
	}
}
