package intoto_test

import (
	"bytes"
	"context"
	"crypto"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	"github.com/in-toto/in-toto-golang/in_toto"
	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/intoto"
	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/attest/sigstore"
	"github.com/weighmaster/weighmaster/fixtures/shared"
)

var (
	source = godigest.FromString("source")
	model  = godigest.FromString("model")
	tool   = godigest.FromString("tool")
)

// claim signs and verifies the provenance of one stage run that says nothing of its result.
func claim(t *testing.T, key crypto.Signer, stage, product string, made godigest.Digest, dependencies ...*attest.ResourceDescriptor) attest.Claim {
	t.Helper()
	return ended(t, key, stage, product, made, "", 0, dependencies...)
}

// ended is a run with a verdict and exit status.
func ended(t *testing.T, key crypto.Signer, stage, product string, made godigest.Digest, verdict string, status float64, dependencies ...*attest.ResourceDescriptor) attest.Claim {
	t.Helper()
	details := &provenance.RunDetails{Builder: &provenance.Builder{Id: "https://example.org/builder"}}
	if verdict != "" {
		annotations, err := structpb.NewStruct(map[string]any{"verdict": verdict, "exitStatus": status})
		if err != nil {
			t.Fatal(err)
		}
		details.Byproducts = []*attest.ResourceDescriptor{{Name: "result", Digest: map[string]string{"sha256": tool.Encoded()}, Annotations: annotations}}
	}
	external, err := structpb.NewStruct(map[string]any{"stage": stage})
	if err != nil {
		t.Fatal(err)
	}
	s, err := attest.NewStatement([]*attest.ResourceDescriptor{{Name: product, Digest: map[string]string{"sha256": made.Encoded()}}}, attest.ProvenanceType, &provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{BuildType: "https://example.org/stage", ExternalParameters: external, ResolvedDependencies: dependencies},
		RunDetails:      details,
	})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := sigstore.NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := signer.Sign(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	v, err := sigstore.NewVerifier([]sigstore.Functionary{{Name: "producer", PublicKey: key.Public()}}, sigstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := v.Verify(context.Background(), bundle, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func dependency(name string, d godigest.Digest) *attest.ResourceDescriptor {
	return &attest.ResourceDescriptor{Name: name, Digest: map[string]string{"sha256": d.Encoded()}}
}

// chain is two stage runs, the second of which takes what the first made.
func chain(t *testing.T, key crypto.Signer) []attest.Claim {
	return []attest.Claim{
		claim(t, key, "source", "model.safetensors", source, dependency("tool/weighmaster", tool)),
		claim(t, key, "q8", "model-Q8_0.gguf", model, dependency("input/model", source), dependency("tool/weighmaster", tool)),
	}
}

// export writes layout, links and public key into a folder.
func export(t *testing.T, key crypto.Signer, expires time.Time, tamper func([]intoto.Run)) string {
	t.Helper()
	runs, err := intoto.Runs(chain(t, key))
	if err != nil {
		t.Fatal(err)
	}
	layout, err := intoto.ExportLayout(runs, expires, key)
	if err != nil {
		t.Fatal(err)
	}
	if tamper != nil {
		tamper(runs)
	}
	folder := t.TempDir()
	files := map[string][]byte{"root.layout": layout}
	for _, r := range runs {
		name, body, err := intoto.ExportLink(r, key)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = body
	}
	if files["key.pub"], err = keys.EncodePublic(key.Public()); err != nil {
		t.Fatal(err)
	}
	for name, body := range files {
		if err := os.WriteFile(filepath.Join(folder, name), body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// withGo is in-toto-golang's own verifier.
func withGo(t *testing.T, folder string, pub crypto.PublicKey) error {
	t.Helper()
	k, err := intoto.PublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	layout, err := in_toto.LoadMetadata(filepath.Join(folder, "root.layout"))
	if err != nil {
		return err
	}
	_, err = in_toto.InTotoVerify(layout, map[string]in_toto.Key{k.KeyID: k}, folder, "", nil, nil, false)
	return err
}

// cases are exports with what was done to them; the first is good.
func cases(t *testing.T, key crypto.Signer) map[string]struct {
	folder string
	words  string
} {
	later := time.Now().Add(time.Hour)
	edit := func(folder, pattern, old, new string) string {
		matches, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil || len(matches) != 1 {
			t.Fatalf("%s: %v %v", pattern, matches, err)
		}
		body, err := os.ReadFile(matches[0])
		if err != nil || !bytes.Contains(body, []byte(old)) {
			t.Fatalf("%s has no %q: %v", pattern, old, err)
		}
		if err := os.WriteFile(matches[0], bytes.ReplaceAll(body, []byte(old), []byte(new)), 0o600); err != nil {
			t.Fatal(err)
		}
		return folder
	}
	remove := func(folder, pattern string) string {
		matches, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil || len(matches) != 1 {
			t.Fatalf("%s: %v %v", pattern, matches, err)
		}
		if err := os.Remove(matches[0]); err != nil {
			t.Fatal(err)
		}
		return folder
	}
	return map[string]struct{ folder, words string }{
		"as exported":             {export(t, key, later, nil), ""},
		"an edited link":          {edit(export(t, key, later, nil), "q8.*.link", model.Encoded(), tool.Encoded()), "signature"},
		"an edited layout":        {edit(export(t, key, later, nil), "root.layout", `"threshold": 1`, `"threshold": 0`), ""},
		"a missing link":          {remove(export(t, key, later, nil), "source.*.link"), ""},
		"an expired layout":       {export(t, key, time.Now().Add(-time.Hour), nil), "expired"},
		"another material signed": {export(t, key, later, func(r []intoto.Run) { r[1].Materials["source/model.safetensors"] = tool }), "source/model.safetensors"},
		"a material from nowhere": {export(t, key, later, func(r []intoto.Run) { r[1].Materials["input/extra"] = tool }), "input/extra"},
		"a product beside":        {export(t, key, later, func(r []intoto.Run) { r[1].Products["elsewhere/x"] = tool }), "elsewhere/x"},
		"a product missing":       {export(t, key, later, func(r []intoto.Run) { delete(r[1].Products, "q8/model-Q8_0.gguf") }), "q8/model-Q8_0.gguf"},
	}
}

func TestGoVerifiesTheExport(t *testing.T) {
	for _, algorithm := range []string{keys.ECDSA, keys.Ed25519} {
		key, err := keys.Generate(algorithm)
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range cases(t, key) {
			t.Run(algorithm+" "+name, func(t *testing.T) {
				err := withGo(t, c.folder, key.Public())
				if name == "as exported" {
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
		other, err := keys.Generate(algorithm)
		if err != nil {
			t.Fatal(err)
		}
		if err := withGo(t, export(t, key, time.Now().Add(time.Hour), nil), other.Public()); err == nil {
			t.Error("the layout verified with another key")
		}
	}
}

// The Python reference implementation, where it is installed.
func TestReferenceVerifiesTheExport(t *testing.T) {
	program := os.Getenv("WEIGHMASTER_INTOTO_VERIFY")
	if program == "" {
		shared.Missing(t, "WEIGHMASTER_INTOTO_VERIFY does not name the reference's in-toto-verify; see .ci/interop/install-intoto")
	}
	for _, algorithm := range []string{keys.ECDSA, keys.Ed25519} {
		key, err := keys.Generate(algorithm)
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range cases(t, key) {
			t.Run(algorithm+" "+name, func(t *testing.T) {
				cmd := exec.Command(program, "--layout", "root.layout", "--verification-keys", "key.pub", "--link-dir", ".", "--verbose")
				cmd.Dir = c.folder
				out, err := cmd.CombinedOutput()
				if good := name == "as exported"; good != (err == nil) {
					t.Errorf("in-toto-verify: %v\n%s", err, out)
				}
			})
		}
	}
}

func TestRunsRefuse(t *testing.T) {
	key, err := keys.Generate(keys.ECDSA)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := intoto.Runs(nil); err == nil || !strings.Contains(err.Error(), "no stage run") {
		t.Errorf("no claims gave %v", err)
	}
	failed := []attest.Claim{ended(t, key, "q8", "model-Q8_0.gguf", model, "failed", 1)}
	if _, err := intoto.Runs(failed); err == nil || !strings.Contains(err.Error(), "no stage run that passed") {
		t.Errorf("a failed run gave %v", err)
	}
	if _, err := intoto.ExportLayout(nil, time.Now(), key); err == nil || !strings.Contains(err.Error(), "no steps") {
		t.Errorf("a layout without steps gave %v", err)
	}
	for _, r := range []intoto.Run{
		{Stage: "../x"}, {Stage: "a*"}, {Stage: ""},
		{Stage: "a", Products: map[string]godigest.Digest{"../x": tool}},
		{Stage: "a", Products: map[string]godigest.Digest{"/x": tool}},
		{Stage: "a", Materials: map[string]godigest.Digest{"x": "md5:00"}},
	} {
		if _, _, err := intoto.ExportLink(r, key); err == nil {
			t.Errorf("%+v was exported", r)
		}
	}
	name, body, err := intoto.ExportLink(intoto.Run{Stage: "a"}, key)
	if err != nil || !strings.HasPrefix(name, "a.") || !json.Valid(body) || bytes.Contains(body, []byte("PRIVATE")) {
		t.Errorf("an empty run gave %s %s, %v", name, body, err)
	}
}

// TestRunsTakeTheNewestThatPassed: a stage that was tried again is one step.
func TestRunsTakeTheNewestThatPassed(t *testing.T) {
	key, err := keys.Generate(keys.ECDSA)
	if err != nil {
		t.Fatal(err)
	}
	first := ended(t, key, "q8", "model-Q8_0.gguf", tool, "passed", 0, dependency("input/model", source))
	again := ended(t, key, "q8", "model-Q8_0.gguf", model, "passed", 0, dependency("input/model", source))
	runs, err := intoto.Runs([]attest.Claim{
		claim(t, key, "source", "model.safetensors", source), first, again, again,
		ended(t, key, "q8", "model-Q8_0.gguf", source, "undecided", 1, dependency("input/model", source)),
	})
	if err != nil || len(runs) != 2 {
		t.Fatalf("got %+v, %v", runs, err)
	}
	q8 := runs[1]
	if q8.Products["q8/model-Q8_0.gguf"] != model || q8.ByProducts["return-value"] != 0 || q8.Materials["source/model.safetensors"] != source {
		t.Errorf("got %+v", q8)
	}
	if _, told := runs[0].ByProducts["return-value"]; told {
		t.Errorf("a run that says nothing of its result got the status %v", runs[0].ByProducts)
	}
}
