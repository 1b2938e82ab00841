package stages

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/quant"
	"github.com/weighmaster/weighmaster/kernels/recipe"
	"github.com/weighmaster/weighmaster/schemas"
)

func sharedFile(t *testing.T, elem ...string) Artifact {
	t.Helper()
	path := shared.Path(t, append([]string{"data"}, elem...)...)
	f, err := readFile(t.Context(), filepath.Base(path), path)
	if err != nil {
		t.Fatal(err)
	}
	return FileArtifact(f)
}

// TestQuantizeMakesRecipes compares products with llama-quantize's own by their
// digests; the one with a matrix states the matrix under the name that it has here.
func TestQuantizeMakesRecipes(t *testing.T) {
	model, matrix := sharedFile(t, "llama-grouped", "BF16.gguf"), sharedFile(t, "llama-grouped", "imatrix.gguf")
	body, err := os.ReadFile(matrix.Path)
	if err != nil {
		t.Fatal(err)
	}
	matrix.Path = filepath.Join(t.TempDir(), "tinyA.imatrix.gguf") // as it was called when the products were made
	if err := os.WriteFile(matrix.Path, body, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		with   string
		inputs map[string]Artifact
		theirs []string
	}{
		{`{"type":"Q4_K_M","file":"m.gguf"}`, map[string]Artifact{"model": model}, []string{"llama-grouped", "Q4_K_M.gguf"}},
		{`{"type":"Q4_K_M","pure":true,"file":"m.gguf"}`, map[string]Artifact{"model": model}, []string{"llama-grouped", "more", "Q4_K-pure.gguf"}},
		{`{"type":"IQ4_XS","file":"m.gguf"}`, map[string]Artifact{"model": model, "imatrix": matrix}, []string{"llama-grouped", "IQ4_XS-im.gguf"}},
	} {
		out, err := runStage(t, Quantize{}, c.with, c.inputs)
		if err != nil {
			t.Fatal(err)
		}
		want := sharedFile(t, c.theirs...)
		if out.Verdict != schemas.Passed || out.Output.Digest != want.Digest {
			t.Errorf("%s: got %s with digest %s, want passed with %s", c.with, out.Verdict, out.Output.Digest, want.Digest)
		}
		if _, given := c.inputs["imatrix"]; given && (len(out.Reports) != 1 || out.Facts["imatrix"] != matrix.Digest.String()) {
			t.Errorf("%s: got %d reports and facts %v, want the matrix's report and digest", c.with, len(out.Reports), out.Facts)
		}
	}
}

// TestQuantizeFailsOverABadMatrix: nothing is made from another model's matrix, or from a damaged one.
func TestQuantizeFailsOverABadMatrix(t *testing.T) {
	matrix := sharedFile(t, "llama-grouped", "imatrix.gguf")
	body, err := os.ReadFile(matrix.Path)
	if err != nil {
		t.Fatal(err)
	}
	nan := bytes.Clone(body)
	copy(nan[len(nan)-2048:], bytes.Repeat([]byte{0xff}, 4))
	for name, c := range map[string]struct {
		body  []byte
		model Artifact
		want  string
	}{
		"another model's": {body, sharedFile(t, "llama-odd", "BF16.gguf"), "size that is not the model's"},
		"a NaN":           {nan, sharedFile(t, "llama-grouped", "BF16.gguf"), "sums that are no numbers"},
		"a cut file":      {body[:len(body)-100], sharedFile(t, "llama-grouped", "BF16.gguf"), "importance matrix format"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "imatrix.gguf")
			if err := os.WriteFile(path, c.body, 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := runStage(t, Quantize{}, `{"type":"Q4_K_M","file":"m.gguf"}`, map[string]Artifact{"model": c.model, "imatrix": {Name: "imatrix.gguf", Path: path}})
			if err != nil {
				t.Fatal(err)
			}
			if out.Verdict != schemas.Failed || out.Output != nil || !strings.Contains(out.Failure, c.want) || len(out.Reports) != 1 || out.Reports[0].Verdict != kernels.Failed {
				t.Errorf("got %s (%s) and output %v, want failed over: %s", out.Verdict, out.Failure, out.Output, c.want)
			}
		})
	}
}

// TestTheSchemaOffersWhatIsRecomputed: every recipe whose own type is recomputed, and no other.
func TestTheSchemaOffersWhatIsRecomputed(t *testing.T) {
	for _, r := range recipe.Recipes() {
		with := json.RawMessage(`{"type":"` + r.Name + `","file":"m.gguf"}`)
		want := quant.Recomputed(r.Default) && !r.Copies()
		if err := schemas.StageParameters("quantize", with); (err == nil) != want {
			t.Errorf("%s: the schema says %v, want it offered: %v", r.Name, err, want)
		}
	}
}
