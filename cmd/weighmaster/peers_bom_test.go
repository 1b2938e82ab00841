package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/bomschemas"
	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/verify/bom"
)

// The validators of the two projects, told a document's path. Each says "valid" or why not.
const (
	cyclonedxScript = `import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read())
print(error or "valid")
sys.exit(1 if error else 0)
`
	spdxScript = `import sys
from spdx_python_model import v3_0_1 as spdx
objects = spdx.SHACLObjectSet()
with open(sys.argv[1]) as f:
    spdx.JSONLDDeserializer().read(f, objects)
missing = objects.link()
packages = list(objects.foreach_type("ai_AIPackage"))
if missing or not packages:
    sys.exit(f"missing {missing}, {len(packages)} AI packages")
print("valid")
`
)

// TestPeersBOM exports the demo's chain as bills of materials and gives them to
// the projects' own validators, whole and after a tamper.
func TestPeersBOM(t *testing.T) {
	python := os.Getenv("WEIGHMASTER_BOM_PYTHON")
	if python == "" {
		shared.Missing(t, "WEIGHMASTER_BOM_PYTHON does not name a python with the validators; see .ci/interop/install-bom")
	}
	_, p, product := openDemo(t)
	for name, c := range map[string]struct {
		write    func(bom.Chain) ([]byte, error)
		schema   func([]byte) error
		script   string
		old, new string
	}{
		"CycloneDX": {bom.CycloneDX, bomschemas.CycloneDX, cyclonedxScript, `"alg": "SHA-256"`, `"alg": "SHA-2"`},
		"SPDX":      {bom.SPDX, bomschemas.SPDX, spdxScript, `"algorithm": "sha256"`, `"algorithm": "sha-2"`},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bom.json")
			if _, err := p.exportBOM(t.Context(), product, path, c.write); err != nil {
				t.Fatal(err)
			}
			doc, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"pkg:huggingface/weighmaster/example-llama-2m@", "kl_mean", "nats", "llama", "CC0-1.0", "Q8_0"} {
				if !bytes.Contains(doc, []byte(want)) {
					t.Errorf("the document does not say %q", want)
				}
			}
			if err := c.schema(doc); err != nil {
				t.Error(err)
			}
			if out, err := exec.CommandContext(t.Context(), python, "-c", c.script, path).CombinedOutput(); err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), "valid") {
				t.Errorf("%v\n%s", err, out)
			}
			tampered := bytes.Replace(doc, []byte(c.old), []byte(c.new), 1)
			if bytes.Equal(tampered, doc) {
				t.Fatalf("the document has no %s", c.old)
			}
			if err := os.WriteFile(path, tampered, 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.CommandContext(t.Context(), python, "-c", c.script, path).CombinedOutput(); err == nil {
				t.Errorf("a tampered document is valid:\n%s", out)
			}
		})
	}
}
