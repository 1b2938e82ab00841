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
	"github.com/weighmaster/weighmaster/kernels/gguf"
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
		{"class D", []string{real("BF16.gguf"), real("IQ4_XS-im.gguf")}, 2, []string{`not recomputed\n`, `class of proof D`, `tensors class D, unproven: (?s:.*)\n     \S+ IQ4_XS.*; not verified`}},
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

// changedCopy writes a copy of a file with the bytes behind a mark replaced.
func changedCopy(t *testing.T, path, mark string, skip int, now []byte) string {
	t.Helper()
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(body, []byte(mark))
	if at < 0 {
		t.Fatalf("%s: no %q", path, mark)
	}
	copy(body[at+len(mark)+skip:], now)
	copied := filepath.Join(t.TempDir(), filepath.Base(path))
	write(t, copied, body)
	return copied
}

// TestCompareJudgesWhatStandsBesideTheWeights: exit code 1 and FAIL where the weights are right and the
// model is not, exit code 2 where nothing could be checked.
func TestCompareJudgesWhatStandsBesideTheWeights(t *testing.T) {
	dir := shared.Path(t, "data", "llama-grouped")
	real := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	theta := changedCopy(t, real("Q4_K_M.gguf"), "llama.rope.freq_base", 4, []byte{0, 0x40, 0x1c, 0x46}) // 10000
	matrix := filepath.Join(t.TempDir(), "imatrix.gguf")
	body, err := os.ReadFile(real("imatrix.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		t.Fatal(err)
	}
	sums, _ := f.Tensor("blk.3.ffn_up.weight.in_sum2")
	copy(body[sums.Offset:], []byte{0, 0, 0xc0, 0x7f}) // NaN
	write(t, matrix, body)
	prompt := filepath.Join(t.TempDir(), "affine")
	if err := os.CopyFS(prompt, os.DirFS("../../fixtures/mlx/affine-4-64")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(prompt, "chat_template.jinja"), []byte("{{ evil }}"))
	for name, c := range map[string]struct {
		args []string
		code int
		want []string
	}{
		"RoPE theta":                         {[]string{real("hf"), theta}, 1, []string{`class of proof A`, `FAIL metadata: key llama\.rope\.freq_base: got 10000, want 500000`, `what stands beside the weights does not follow`}},
		"the chat template of an MLX folder": {[]string{"../../fixtures/mlx/source", prompt}, 1, []string{`: quantization\n`, `FAIL chat template differs: default: line 1: got "\{\{ evil \}\}"`}},
		"a vocabulary that is not derived":   {[]string{"../../fixtures/architectures/qwen2/hf", "../../fixtures/architectures/qwen2/BF16.gguf"}, 2, []string{`exact conversion`, `\?\?\?  tokenizer: .*pre-tokenizer`}},
		"a matrix with a NaN":                {[]string{real("BF16.gguf"), real("Q4_K_M-im.gguf"), "--imatrix", matrix}, 2, []string{`an importance matrix with faults \(1\)`, `got 1 of \d+ sums are NaN or infinite`}},
		"a matrix that is none":              {[]string{real("BF16.gguf"), real("Q4_K_M-im.gguf"), "--imatrix", real("Q8_0.gguf")}, 2, []string{`imatrix\.datasets.*nothing was compared`}},
		"sides that are not compared":        {[]string{"../../fixtures/mlx/affine-4-64", real("Q8_0.gguf")}, 2, []string{`got a folder that MLX quantized as the source of a GGUF file`}},
		"one shard":                          {[]string{"../../fixtures/mlx/source/model.safetensors", real("Q8_0.gguf")}, 2, []string{`got one safetensors file, want the folder`}},
		"errors alone":                       {[]string{real("BF16.gguf"), real("more/IQ3_S.gguf")}, 2, []string{`tensors class D, unproven: (?s:.*) IQ3_S, relative RMS error`}},
		"two folders of one tool":            {[]string{"../../fixtures/compressed/modelopt-nvfp4-kv", "../../fixtures/compressed/modelopt-nvfp4"}, 0, []string{`class of proof A, \d\d tensors`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, said := runSelf(t, append([]string{"compare"}, c.args...)...)
			for _, want := range c.want {
				if code != c.code || !regexp.MustCompile(want).MatchString(said) {
					t.Errorf("got exit code %d, want %d and %s:\n%.1500s", code, c.code, want, said)
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
