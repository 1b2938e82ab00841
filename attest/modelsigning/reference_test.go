package modelsigning_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/attest/modelsigning"
	"github.com/weighmaster/weighmaster/fixtures/shared"
)

// reference runs model_signing, the Python reference implementation.
func reference(t *testing.T, args ...string) (string, error) {
	t.Helper()
	program := os.Getenv("WEIGHMASTER_MODEL_SIGNING")
	if program == "" {
		shared.Missing(t, "WEIGHMASTER_MODEL_SIGNING does not name the reference's model_signing; see .ci/interop/install-modelsigning")
	}
	out, err := exec.Command(program, args...).CombinedOutput()
	return string(out), err
}

// referenceLibrary verifies with the library's defaults: the command line knows no shards.
func referenceLibrary(t *testing.T, pub, sig, dir string) (string, error) {
	t.Helper()
	const script = "import sys\nfrom model_signing import verifying\nverifying.Config().use_elliptic_key_verifier(public_key=sys.argv[1]).verify(sys.argv[3], sys.argv[2])\n"
	out, err := exec.Command(filepath.Join(filepath.Dir(os.Getenv("WEIGHMASTER_MODEL_SIGNING")), "python"), "-c", script, pub, sig, dir).CombinedOutput()
	return string(out), err
}

func write(t *testing.T, name string, body []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, body, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func publicFile(t *testing.T, key crypto.Signer) string {
	t.Helper()
	doc, err := keys.EncodePublic(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "key.pub", doc)
}

func copyOf(m map[string]string) map[string]string {
	files := map[string]string{}
	for k, v := range m {
		files[k] = v
	}
	return files
}

// TestReferenceVerifiesOurs: what we sign it accepts, and after a tamper refuses, as we do.
func TestReferenceVerifiesOurs(t *testing.T) {
	for _, algorithm := range []string{keys.ECDSA, keys.ECDSAP384} {
		for _, shardSize := range []int64{0, 4} {
			key := newKey(t, algorithm)
			files := copyOf(model)
			if shardSize > 0 {
				delete(files, "added_tokens.json") // the reference's shards leave out empty files
			}
			dir := folder(t, files)
			bundle, err := modelsigning.Sign(context.Background(), key, scan(t, dir, shardSize), modelsigning.GitPaths())
			if err != nil {
				t.Fatal(err)
			}
			pub, sig := publicFile(t, key), write(t, "model.sig", bundle)
			verify := func(pub, sig, dir string) (string, error) {
				return reference(t, "verify", "key", "--public_key", pub, "--signature", sig, dir)
			}
			if shardSize > 0 {
				reference(t, "--version") // tells whether it is here
				verify = func(pub, sig, dir string) (string, error) { return referenceLibrary(t, pub, sig, dir) }
			}
			if out, err := verify(pub, sig, dir); err != nil {
				t.Fatalf("%s, shards of %d: %v\n%s", algorithm, shardSize, err, out)
			}
			if algorithm != keys.ECDSA {
				continue
			}
			files["config.json"], files["weights-c"] = files["weights-c"], files["config.json"]
			if out, err := verify(pub, sig, folder(t, files)); err == nil {
				t.Errorf("it accepted swapped names:\n%s", out)
			}
			if out, err := verify(publicFile(t, newKey(t, algorithm)), sig, dir); err == nil {
				t.Errorf("it accepted another key:\n%s", out)
			}
		}
	}
	key := newKey(t, keys.ECDSA)
	file := filepath.Join(folder(t, map[string]string{"a.gguf": "weights"}), "a.gguf")
	bundle, err := modelsigning.Sign(context.Background(), key, scan(t, file, 0), modelsigning.GitPaths())
	if err != nil {
		t.Fatal(err)
	}
	if out, err := reference(t, "verify", "key", "--public_key", publicFile(t, key), "--signature", write(t, "a.sig", bundle), file); err != nil {
		t.Errorf("one file: %v\n%s", err, out)
	}
}

// TestWeVerifyTheReference: what it signs we accept, and after a tamper refuse.
func TestWeVerifyTheReference(t *testing.T) {
	for _, algorithm := range []string{keys.ECDSA, keys.ECDSAP384} {
		key := newKey(t, algorithm)
		doc, err := keys.EncodePlain(key)
		if err != nil {
			t.Fatal(err)
		}
		files := copyOf(model)
		files[".gitattributes"] = "*"
		dir := folder(t, files)
		sig := filepath.Join(dir, "model.sig")
		if out, err := reference(t, "sign", "key", "--private_key", write(t, "key.pem", doc), "--signature", sig, dir); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		bundle, err := os.ReadFile(sig)
		if err != nil {
			t.Fatal(err)
		}
		s, err := verify(t, key, bundle)
		if err != nil {
			t.Fatal(err)
		}
		if d := s.Manifest.Compare(scan(t, dir, 0, "model.sig", ".gitattributes")); len(d) != 0 {
			t.Errorf("%s: %+v", algorithm, d)
		}
		if d := s.Manifest.Compare(scan(t, dir, 0, "model.sig")); len(d) != 1 || d[0].Check != modelsigning.CheckExtra || d[0].Name != ".gitattributes" {
			t.Errorf("a file that the user did not leave out: %+v", d)
		}
		_, err = verify(t, newKey(t, algorithm), bundle)
		wantCheck(t, err, attest.CheckFunctionary, "")
	}
}

// TestReferenceAcceptsWhatWeRefuse shows for each case that the reference takes
// it. Should a later version of it refuse one, the case has become common ground
// and moves to the others.
func TestReferenceAcceptsWhatWeRefuse(t *testing.T) {
	key := newKey(t, keys.ECDSA)
	pub := publicFile(t, key)
	const shards = `{"method":"shards","hash_type":"sha256","allow_symlinks":false,"shard_size":4}`
	ignoring := func(path string) string {
		return `{"method":"files","hash_type":"sha256","allow_symlinks":false,"ignore_paths":["` + path + `"]}`
	}
	a := resource{"a", "aaaa"}
	for name, c := range map[string]struct {
		payload string
		files   map[string]string
		links   map[string]string
		flags   []string
		words   string // of our refusal
	}{
		"an empty file that is in no shard":      {payload: strings.Replace(statement(shards, resource{"a:0:4", "aaaa"}), `"algorithm":"sha256"`, `"algorithm":"sha256-sharded-4"`, 1), files: map[string]string{"a": "aaaa", "pkg/__init__.py": ""}, words: "file is not signed pkg/__init__.py:0:0"},
		"a model of no files":                    {payload: statement(plain), files: map[string]string{".git/x": "x"}, words: "nothing was signed"},
		"everything ignored by the signer":       {payload: statement(ignoring(".")), files: map[string]string{"evil": "x"}, words: "nothing was signed"},
		"a folder ignored by the signer":         {payload: statement(ignoring("evil"), a), files: map[string]string{"a": "aaaa", "evil/x.py": "x"}, words: "file is not signed evil/x.py"},
		"hooks in .git":                          {payload: statement(plain, a), files: map[string]string{"a": "aaaa", ".git/hooks/post-checkout": "x"}, words: "file is not signed .git/hooks/post-checkout"},
		"filters in .gitattributes":              {payload: statement(plain, a), files: map[string]string{"a": "aaaa", ".gitattributes": "x"}, words: "file is not signed .gitattributes"},
		"a name that leaves the folder":          {payload: statement(plain, resource{"../secret", "s"}), files: map[string]string{"a": "aaaa", "../secret": "s"}, flags: []string{"--ignore_unsigned_files"}, words: "plain relative path"},
		"a name twice":                           {payload: statement(plain, resource{"a", "another"}, a), files: map[string]string{"a": "aaaa"}, words: `"a" twice`},
		"a name that is another when normalized": {payload: statement(plain, resource{"./a", "another"}, a), files: map[string]string{"a": "aaaa"}, words: "plain relative path"},
		"a folder behind a link":                 {payload: statement(plain, a), files: map[string]string{"a": "aaaa", "../outside/evil.py": "x"}, links: map[string]string{"pkg": "../outside"}, flags: []string{"--allow_symlinks"}, words: "pkg: got a symbolic link"},
		"a file behind a link that leaves":       {payload: statement(plain, a), files: map[string]string{"../outside": "aaaa", "x": ""}, links: map[string]string{"a": "../outside"}, flags: []string{"--allow_symlinks", "--ignore-paths", "x"}, words: "a: got a symbolic link"},
		"a key twice":                            {payload: strings.Replace(statement(plain, a), `"resources":`, `"resources":[],"resources":`, 1), files: map[string]string{"a": "aaaa"}, words: "twice"},
		"the format of 0.2, which binds no set":  {payload: fmt.Sprintf(`{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"a","digest":{"sha256":"%x"}}],"predicateType":"https://model_signing/Digests/v0.1","predicate":{"x":1}}`, sha256.Sum256([]byte("aaaa"))), files: map[string]string{"a": "aaaa"}, words: "model-signing 0.2"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, c.files)
			for from, to := range c.links {
				if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
					t.Fatal(err)
				}
			}
			bundle := signRaw(t, key, c.payload)
			flags := append([]string{}, c.flags...)
			for i, f := range flags {
				if f == "x" {
					flags[i] = filepath.Join(dir, f)
				}
			}
			args := append([]string{"verify", "key", "--public_key", pub, "--signature", write(t, "model.sig", bundle)}, flags...)
			out, err := reference(t, append(args, dir)...)
			if strings.Contains(c.payload, `"shards"`) {
				out, err = referenceLibrary(t, args[3], args[5], dir)
			}
			if err != nil {
				t.Errorf("the reference refuses this too: %v\n%s", err, out)
			}
			if got := refusal(t, key, bundle, dir); !strings.Contains(got, c.words) {
				t.Errorf("got %q, want a refusal with %q", got, c.words)
			}
		})
	}
}

// refusal is why we refuse a model, or nothing.
func refusal(t *testing.T, key crypto.Signer, bundle []byte, dir string) string {
	t.Helper()
	s, err := verify(t, key, bundle)
	if err != nil {
		return err.Error()
	}
	m, err := modelsigning.Scan(context.Background(), dir, s.Manifest.ShardSize, nil)
	if err != nil {
		return err.Error()
	}
	words := ""
	for _, d := range s.Manifest.Compare(m) {
		words += d.Check + " " + d.Name + "; "
	}
	return words
}

// authority makes a certificate authority and a leaf that is valid until an hour before now, or after.
func authority(t *testing.T, name string, lives time.Duration) (root, leaf *x509.Certificate, key *ecdsa.PrivateKey) {
	t.Helper()
	make := func(template, parent *x509.Certificate, pub crypto.PublicKey, by crypto.Signer) *x509.Certificate {
		der, err := x509.CreateCertificate(rand.Reader, template, parent, pub, by)
		if err != nil {
			t.Fatal(err)
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ca, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	start := time.Now().Add(-48 * time.Hour)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: start, NotAfter: start.Add(10000 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	root = make(template, template, ca.Public(), ca)
	leaf = make(&x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, EmailAddresses: []string{name}, NotBefore: start, NotAfter: time.Now().Add(lives),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}}, root, key.Public(), ca)
	return root, leaf, key
}

// TestReferenceAcceptsCertificates: it takes an expired certificate, and one of
// anybody under the authority; of good ones both of us take the signature.
func TestReferenceAcceptsCertificates(t *testing.T) {
	dir := folder(t, map[string]string{"a": "aaaa"})
	for name, c := range map[string]struct {
		lives   time.Duration
		subject string
		check   attest.Check // of our refusal; empty: accepted
	}{
		"good":               {time.Hour, "producer@example.org", ""},
		"expired":            {-time.Hour, "producer@example.org", attest.CheckCertificate},
		"of anybody at all":  {time.Hour, "somebody@example.org", attest.CheckFunctionary},
		"of nobody we named": {time.Hour, "", attest.CheckFunctionary},
	} {
		t.Run(name, func(t *testing.T) {
			root, leaf, key := authority(t, "producer@example.org", c.lives)
			payload := statement(plain, resource{"a", "aaaa"})
			sum := sha256.Sum256(dsse.PAE(attest.PayloadType, []byte(payload)))
			sig, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
			if err != nil {
				t.Fatal(err)
			}
			bundle, err := json.Marshal(map[string]any{
				"mediaType":            "application/vnd.dev.sigstore.bundle.v0.3+json",
				"verificationMaterial": map[string]any{"x509CertificateChain": map[string]any{"certificates": []any{map[string]any{"rawBytes": leaf.Raw}}}},
				"dsseEnvelope": map[string]any{"payload": base64.StdEncoding.EncodeToString([]byte(payload)), "payloadType": attest.PayloadType,
					"signatures": []any{map[string]any{"sig": sig, "keyid": ""}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			pool := x509.NewCertPool()
			pool.AddCert(root)
			s, err := modelsigning.VerifyCertificate(bundle, pool, c.subject, time.Now())
			if c.check == "" {
				if err != nil || len(s.Manifest.Compare(scan(t, dir, 0))) != 0 {
					t.Errorf("got %+v, %v", s, err)
				}
			} else {
				wantCheck(t, err, c.check, "")
			}
			chain := write(t, "root.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Raw}))
			if out, err := reference(t, "verify", "certificate", "--certificate_chain", chain, "--signature", write(t, "model.sig", bundle), dir); err != nil {
				t.Errorf("the reference refuses this: %v\n%s", err, out)
			}
		})
	}
}
