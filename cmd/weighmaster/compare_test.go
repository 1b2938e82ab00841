package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
)

// TestCompareOfRealFiles: exit code and words for every class, on files that llama-quantize made.
func TestCompareOfRealFiles(t *testing.T) {
	real := func(name string) string { return shared.Path(t, "data", "llama-grouped", filepath.FromSlash(name)) }
	for _, c := range []struct {
		name string
		args []string
		code int
		want []string // regular expressions
	}{
		{"class A", []string{real("hf"), real("Q4_K_M.gguf")}, 0,
			[]string{`: quantization\n`, `class of proof A, recipe Q4_K_M, 40 tensors`, `build of the quantizers: plain`, `whole file recomputed: sha256:[0-9a-f]{64}, 2009920 bytes`, `as it claims them: general\.name`, `unproven: Nothing about the tensors' bytes`}},
		{"class A with the matrix", []string{real("BF16.gguf"), real("Q6_K-im.gguf"), "--imatrix", real("imatrix.gguf")}, 0,
			[]string{`class of proof A, recipe Q6_K`, `importance matrix: sha256:[0-9a-f]{64}, 28 entries; 28 tensors fit it bit for bit, 0 do not`, `whole file recomputed`}},
		{"class A of another build", []string{real("BF16.gguf"), real("fma-build/Q6_K.gguf")}, 0, []string{`class of proof A`, `build of the quantizers: gcc-fma`}},
		{"class C", []string{real("BF16.gguf"), real("Q6_K-im.gguf")}, 0,
			[]string{`class of proof C`, `the importance matrix is not at hand; codes are exact in every block`, `importance matrix claimed: file "[^"]+", dataset "corpus.txt", 28 entries, 40 chunks \(a name, not a digest\)`}},
		{"class D", []string{real("BF16.gguf"), real("IQ4_XS-im.gguf")}, 2, []string{`not recomputed\n`, `class of proof D`, `class D, .*; not verified`}},
		{"not derived", []string{real("BF16.gguf"), real("forged/Q4_K_M-made-from-Q8_0.gguf")}, 1,
			[]string{`not derived`, `FAIL codes: tensor .*the codes follow the source after a pass through Q8_0`}},
		{"a re-upload", []string{real("Q4_K_M.gguf"), real("Q6_K.gguf")}, 2, []string{`change: another recipe: Q4_K_M before, Q6_K now`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, said := runSelf(t, append([]string{"compare"}, c.args...)...)
			if code != c.code {
				t.Errorf("got exit code %d, want %d", code, c.code)
			}
			for _, w := range c.want {
				if !regexp.MustCompile(w).MatchString(said) {
					t.Errorf("got:\n%.1500s\nwant it to match %s", said, w)
				}
			}
		})
	}
}

// TestCompareJSONSaysWhatRemainsUnproven of the file and of each tensor.
func TestCompareJSONSaysWhatRemainsUnproven(t *testing.T) {
	dir := shared.Path(t, "data", "llama-grouped")
	code, said := runSelf(t, "compare", filepath.Join(dir, "BF16.gguf"), filepath.Join(dir, "Q6_K.gguf"), "--json")
	var r struct {
		Unproven string
		Whole    struct{ Digest string }
		Tensors  []struct{ Name, Class, Unproven string }
	}
	if err := json.Unmarshal([]byte(said), &r); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v", code, err)
	}
	if r.Unproven == "" || !strings.HasPrefix(r.Whole.Digest, "sha256:") || len(r.Tensors) != 40 {
		t.Errorf("got %.300s", said)
	}
	for _, tensor := range r.Tensors {
		if tensor.Class != "A" || tensor.Unproven == "" || strings.Count(tensor.Unproven, ".") != 1 {
			t.Errorf("tensor %s: got class %q, unproven %q; want A and one sentence", tensor.Name, tensor.Class, tensor.Unproven)
		}
	}
}

// TestCompareTakesSplitFiles by any of their parts.
func TestCompareTakesSplitFiles(t *testing.T) {
	parts, err := filepath.Glob("../../fixtures/split/*-00002-of-*.gguf")
	if err != nil || len(parts) == 0 {
		t.Fatalf("no split file in the fixtures: %v", err)
	}
	first := strings.Replace(parts[0], "-00002-of-", "-00001-of-", 1)
	if code, said := runSelf(t, "compare", parts[0], first); code != 0 || !strings.Contains(said, ": identical") {
		t.Errorf("got exit code %d, %s; want both parts to be the same model", code, said)
	}
}

// TestCompareNamesAnArchitectureWithoutAMapping and does the rest by content.
func TestCompareNamesAnArchitectureWithoutAMapping(t *testing.T) {
	from, folder := shared.Path(t, "data", "llama-grouped", "hf"), t.TempDir()
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		body, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if e.Name() == "config.json" {
			body = bytes.Replace(body, []byte("LlamaForCausalLM"), []byte("UnheardOfForCausalLM"), 1)
		}
		if err := os.WriteFile(filepath.Join(folder, e.Name()), body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	code, said := runSelf(t, "compare", folder, shared.Path(t, "data", "llama-grouped", "Q8_0.gguf"))
	for _, w := range []string{"names not mapped", `"UnheardOfForCausalLM", which has no mapping`, "39 tensors of the target are in the source, 8 of them with rows in another order", "rope_freqs.weight"} {
		if code != 2 || !strings.Contains(said, w) {
			t.Errorf("got exit code %d, %.800s; want 2 and: %s", code, said, w)
		}
	}
}
