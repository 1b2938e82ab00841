package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/in-toto/in-toto-golang/in_toto"
	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/intoto"
	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/fixtures/shared"
)

const demoProduct = "example-llama-2m-Q8_0.gguf"

// openDemo opens a copy of the demo's project, as exports do.
func openDemo(t *testing.T) (*app, *project, string) {
	t.Helper()
	from, err := demoProject()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "demo")
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	a := &app{out: io.Discard, err: io.Discard, in: strings.NewReader(""), project: dir, quiet: true}
	p, err := a.open(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
	return a, p, filepath.Join(dir, deliveredDir, demoProduct)
}

// layoutFolder is an export over the demo's chain; the layout is over runs as they are, the links over runs as changed.
func layoutFolder(t *testing.T, claims []attest.Claim, key crypto.Signer, expires time.Time, change func([]intoto.Run)) string {
	t.Helper()
	runs, err := intoto.Runs(claims)
	if err != nil {
		t.Fatal(err)
	}
	layout, err := intoto.ExportLayout(runs, expires, key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := keys.EncodePublic(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"root.layout": layout, "root.pub": public}
	if change != nil {
		change(runs)
	}
	for _, r := range runs {
		name, body, err := intoto.ExportLink(r, key)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = body
	}
	dir := t.TempDir()
	for name, body := range files {
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestPeersInToto gives the layout and links of the demo's own chain to both
// implementations, whole and after a tamper.
func TestPeersInToto(t *testing.T) {
	_, p, product := openDemo(t)
	d, claims, err := p.lineageOf(t.Context(), product)
	if err != nil {
		t.Fatal(err)
	}
	key, err := keys.Generate(keys.ECDSA)
	if err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour)
	other := godigest.FromString("other bytes")
	run := func(list []intoto.Run, stage string) intoto.Run {
		i := slices.IndexFunc(list, func(r intoto.Run) bool { return r.Stage == stage })
		if i < 0 {
			t.Fatalf("the demo's chain has no stage %s", stage)
		}
		return list[i]
	}
	link := func(dir, stage string) string {
		found, err := filepath.Glob(filepath.Join(dir, stage+".????????.link"))
		if err != nil || len(found) != 1 {
			t.Fatalf("links of %s: %v, %v", stage, found, err)
		}
		return found[0]
	}
	for name, c := range map[string]struct {
		expires time.Time
		change  func([]intoto.Run) // before the links are signed
		after   func(dir string)
		words   string // of in-toto-golang's refusal; empty: it verifies
	}{
		"as exported": {expires: later},
		"a link edited": {expires: later, words: "signature", after: func(dir string) {
			body, err := os.ReadFile(link(dir, "q8"))
			if err != nil || !bytes.Contains(body, []byte(d.Encoded())) {
				t.Fatalf("the link of q8 does not name its product: %v", err)
			}
			if err := os.WriteFile(link(dir, "q8"), bytes.ReplaceAll(body, []byte(d.Encoded()), []byte(other.Encoded())), 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		"a product of other bytes": {expires: later, words: "q8/" + demoProduct, change: func(r []intoto.Run) { run(r, "q8").Products["q8/"+demoProduct] = other }},
		"a link missing": {expires: later, words: "q8-accepted", after: func(dir string) {
			if err := os.Remove(link(dir, "q8-accepted")); err != nil {
				t.Fatal(err)
			}
		}},
		"a material from nowhere": {expires: later, words: "input/extra", change: func(r []intoto.Run) { run(r, "q8-evaluated").Materials["input/extra"] = other }},
		"a product beside":        {expires: later, words: "elsewhere/x", change: func(r []intoto.Run) { run(r, "q8").Products["elsewhere/x"] = other }},
		"an expired layout":       {expires: time.Now().Add(-time.Hour), words: "expired"},
		"another key": {expires: later, words: "signature", after: func(dir string) {
			stranger, err := keys.Generate(keys.ECDSA)
			if err != nil {
				t.Fatal(err)
			}
			public, err := keys.EncodePublic(stranger.Public())
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "root.pub"), public, 0o600); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := layoutFolder(t, claims, key, c.expires, c.change)
			if c.after != nil {
				c.after(dir)
			}
			err := verifyInTotoGo(t, dir)
			if c.words == "" && err != nil || c.words != "" && (err == nil || !strings.Contains(err.Error(), c.words)) {
				t.Errorf("in-toto-golang: got %v, want %q", err, c.words)
			}
			out, err := verifyInTotoPython(t, dir)
			if good := c.words == ""; good != (err == nil) {
				t.Errorf("in-toto-verify: %v\n%s", err, out)
			}
		})
	}
}

func verifyInTotoGo(t *testing.T, dir string) error {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(dir, "root.pub"))
	if err != nil {
		t.Fatal(err)
	}
	pub, err := keys.LoadPublic(body)
	if err != nil {
		t.Fatal(err)
	}
	k, err := intoto.PublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	layout, err := in_toto.LoadMetadata(filepath.Join(dir, "root.layout"))
	if err != nil {
		return err
	}
	_, err = in_toto.InTotoVerify(layout, map[string]in_toto.Key{k.KeyID: k}, dir, "", nil, nil, false)
	return err
}

func verifyInTotoPython(t *testing.T, dir string) (string, error) {
	t.Helper()
	program := os.Getenv("WEIGHMASTER_INTOTO_VERIFY")
	if program == "" {
		shared.Missing(t, "WEIGHMASTER_INTOTO_VERIFY does not name the reference's in-toto-verify; see .ci/interop/install-intoto")
	}
	cmd := exec.CommandContext(t.Context(), program, "--layout", "root.layout", "--verification-keys", "root.pub", "--link-dir", ".", "--verbose")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestPeersSLSAVerifier gives the demo's verification summary to slsa-verifier:
// right, and with one expectation or one byte wrong.
func TestPeersSLSAVerifier(t *testing.T) {
	program := os.Getenv("WEIGHMASTER_SLSA_VERIFIER")
	if program == "" {
		shared.Missing(t, "WEIGHMASTER_SLSA_VERIFIER does not name slsa-verifier; see .ci/interop/install-slsa")
	}
	_, p, product := openDemo(t)
	path := filepath.Join(t.TempDir(), "vsa.json")
	if _, err := p.exportSummary(t.Context(), product, path); err != nil {
		t.Fatal(err)
	}
	d, err := digestArgument(t.Context(), product)
	if err != nil {
		t.Fatal(err)
	}
	const base = "https://github.com/weighmaster/weighmaster/"
	right := map[string]string{
		"--attestation-path": path, "--subject-digest": d.String(), "--verifier-id": base + "verifier", "--resource-uri": base + "artifact/" + d.String(),
		"--verified-level": "WEIGHMASTER_ACCEPTED", "--public-key-path": filepath.Join(p.dir, keysDir, "gatekeeper.pub"),
	}
	envelope, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	edited := filepath.Join(t.TempDir(), "edited.json")
	var env map[string]any
	if err := json.Unmarshal(envelope, &env); err != nil {
		t.Fatal(err)
	}
	env["payload"] = strings.Replace(env["payload"].(string), "ey", "fy", 1)
	if envelope, err = json.Marshal(env); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(edited, envelope, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ flag, value, words string }{
		"right":              {"", "", "PASSED"},
		"another file":       {"--subject-digest", godigest.FromString("other").String(), "expected digest not found"},
		"another level":      {"--verified-level", "SLSA_BUILD_LEVEL_3", "expected SLSA level not found"},
		"another custom one": {"--verified-level", "OTHERS_ACCEPTED", "expected"},
		"another verifier":   {"--verifier-id", base + "other", "verifier ID mismatch"},
		"another resource":   {"--resource-uri", base + "artifact/other", "resource URI mismatch"},
		"another key":        {"--public-key-path", filepath.Join(p.dir, keysDir, "producer.pub"), "no valid signature"},
		"an edited payload":  {"--attestation-path", edited, ""},
	} {
		t.Run(name, func(t *testing.T) {
			flags := maps.Clone(right)
			if c.flag != "" {
				flags[c.flag] = c.value
			}
			args := []string{"verify-vsa"}
			for flag, value := range flags {
				args = append(args, flag, value)
			}
			out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
			if good := name == "right"; good != (err == nil) || !strings.Contains(strings.ToLower(string(out)), strings.ToLower(c.words)) {
				t.Errorf("got %v, want %q:\n%s", err, c.words, out)
			}
		})
	}
}

// TestExportedLines reads the JSON Lines back, one Sigstore bundle each.
func TestExportedLines(t *testing.T) {
	_, p, product := openDemo(t)
	path := filepath.Join(t.TempDir(), "bundles.jsonl")
	if _, err := p.exportLines(t.Context(), product, path); err != nil {
		t.Fatal(err)
	}
	d, claims, err := p.lineageOf(t.Context(), product)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<24)
	n := 0
	for ; lines.Scan(); n++ {
		c, err := p.verifier.Verify(context.Background(), lines.Bytes(), time.Now())
		if err != nil || n >= len(claims) || c.PAE() != claims[n].PAE() {
			t.Fatalf("line %d: %v", n+1, err)
		}
	}
	if lines.Err() != nil || n != len(claims) {
		t.Errorf("got %d lines of %d claims, %v", n, len(claims), lines.Err())
	}
	names, err := p.exportLines(t.Context(), product, t.TempDir())
	if err != nil || len(names) != 1 || filepath.Base(names[0]) != d.String()+".jsonl" {
		t.Errorf("into a folder it wrote %v, %v", names, err)
	}
	if _, err := p.exportLines(t.Context(), product, path); err == nil || exitCode(err) != exitUndecided {
		t.Errorf("over a file that is there: %v", err)
	}
}
