package derive

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
)

func TestCompareNamesTheRelation(t *testing.T) {
	grouped, odd := shared.Path(t, "data", "llama-grouped"), shared.Path(t, "data", "llama-odd")
	hf := func(dir string) Input { return Input{Snapshot: os.DirFS(filepath.Join(dir, "hf"))} }
	file := func(path ...string) Input {
		f := readFile(t, filepath.Join(path...))
		return Input{GGUF: &f}
	}
	bf16, q8 := file(grouped, "BF16.gguf"), file(grouped, "Q8_0.gguf")
	for _, c := range []struct {
		name           string
		source, target Input
		kind           Kind
		class          Class
		recipe         string
		metadata       bool
	}{
		{"a snapshot and itself", hf(grouped), hf(grouped), Identical, ClassA, "BF16 (30)", false},
		{"a file and itself", bf16, bf16, Identical, ClassA, "BF16 (30)", false},
		{"snapshot to BF16", hf(grouped), bf16, Conversion, ClassA, "BF16 (30)", false},
		{"BF16 back to the snapshot", bf16, hf(grouped), Conversion, ClassA, "BF16 (30)", false},
		{"snapshot to Q8_0", hf(grouped), q8, Quantization, ClassA, "Q8_0 (30)", false},
		{"BF16 to Q8_0", bf16, q8, Quantization, ClassA, "Q8_0 (30)", false},
		{"llama-quantize's Q8_0 and the converter's", q8, file(grouped, "converter", "Q8_0.gguf"), Identical, ClassA, "Q8_0 (30)", false},
		{"another model", hf(odd), bf16, NotDerived, None, "BF16 (30)", true},
		{"BF16 to Q4_K_M", bf16, file(grouped, "Q4_K_M.gguf"), Quantization, ClassA, "Q4_K (25), Q6_K (5)", false},
		{"a type that is not recomputed", bf16, file(grouped, "more", "IQ3_S.gguf"), ErrorOnly, ClassD, "IQ3_S (25), Q4_K (4), Q6_K (1)", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if strings.Contains(c.recipe, "Q4_K") {
				arithmetic(t)
			}
			r, err := Compare(t.Context(), c.source, c.target, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Kind != c.kind || r.Class != c.class || r.Recipe.Types != c.recipe || (len(r.Metadata) > 0) != c.metadata {
				t.Errorf("got %q, class %q, recipe %q, metadata %v; want %q, %q, %q\nfindings: %v", r.Kind, r.Class, r.Recipe, r.Metadata, c.kind, c.class, c.recipe, r.Findings)
			}
			body, err := json.Marshal(r)
			if err != nil || strings.Contains(string(body), ":null}") && c.class == ClassA && !strings.Contains(string(body), `"relativeRMSError":null`) {
				t.Errorf("JSON: %v %.200s", err, body)
			}
		})
	}
}
