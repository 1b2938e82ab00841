package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/hostile"
	"github.com/weighmaster/weighmaster/fixtures/shared"
)

func TestInspectSaysWhatAFileHolds(t *testing.T) {
	missing, odd := t.TempDir(), filepath.Join(t.TempDir(), "odd.gguf")
	for _, name := range []string{"part-00001-of-00003.gguf", "part-00003-of-00003.gguf"} {
		body, err := os.ReadFile("../../fixtures/split/" + name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(missing, name), body)
	}
	write(t, filepath.Join(missing, "lone.gguf"), hostile.V3(0, 2).KV("split.count", 2).Raw(3, 0).KV("split.no", 2).Raw(1, 0).Bytes())
	write(t, odd, hostile.V3(1, 0).Tensor("a\x1b[2J\nfake line", 0, 0, 8).Data(32, 32))
	matrix, damaged, cut := filepath.Join(missing, "sound.dat"), filepath.Join(missing, "nan.dat"), filepath.Join(missing, "cut.dat")
	sound := []byte("\x01\x00\x00\x00\x01\x00\x00\x00a\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x80\x3f\x04\x00\x00\x00\x04\x00\x00\x00text")
	write(t, matrix, sound)
	write(t, damaged, bytes.Replace(sound, []byte("\x00\x00\x80\x3f"), []byte("\x00\x00\xc0\x7f"), 1))
	write(t, cut, sound[:20])
	for _, c := range []struct {
		name string
		args []string
		code int
		want []string // regular expressions
	}{
		{"a split by its second part", []string{"../../fixtures/split/part-00002-of-00003.gguf", "--tensors", "--digest"}, 0, []string{
			`GGUF v3, in 3 parts, llama, 1248 parameters`, `output\.weight +F16 .* 76ea9a793128b7a1[0-9a-f]{48} part-00003-of-00003\.gguf`,
			`part-00001-of-00003\.gguf: 1472 bytes, sha256 fe84a893[0-9a-f]{56}, git blob 797c465368ae01df65ef7bba83d35ba104c74d62`}},
		{"a split with a missing part", []string{filepath.Join(missing, "part-00003-of-00003.gguf")}, 1, []string{`missing: part 2 \(part-00002-of-00003\.gguf\)`}},
		{"a part under another name", []string{filepath.Join(missing, "lone.gguf")}, 1, []string{`part 2 of 3 of a split file, want a whole file; open all parts together`}},
		{"a big-endian file", []string{"../../fixtures/byteorder/big.gguf", "--tensors"}, 0, []string{
			`GGUF v3, big-endian, llama`, `llama\.cpp would refuse it: big-endian`, `SHA-256 of tensors is over their little-endian form`}},
		{"names that a terminal would obey", []string{odd, "--tensors"}, 0, []string{`(?m)^  a\\x1b\[2J\\nfake line `, `general\.architecture is missing`}},
		{"not every key", []string{"../../fixtures/llamacpp/Q8_0.gguf"}, 0, []string{`tokenizer: llama \(default\), \d+ tokens`, `bos_token_id = 1 "<s>"`,
			`tokenizer\.chat_template: \d+ bytes, sha256 [0-9a-f]{64}, starts "`, `file type Q8_0 \(7\) quantization version 2`, `tensor types: those of recipe Q8_0`}},
		{"every key", []string{"../../fixtures/llamacpp/Q8_0.gguf", "--keys"}, 0, []string{`tokenizer\.ggml\.tokens = STRING × \d+`}},
		{"gguf-hash of a folder", []string{"../../fixtures/model/snapshot", "--gguf-hash"}, 2, []string{`want a GGUF file`}},
		{"a folder", []string{"../../fixtures/model/snapshot", "--tensors"}, 0, []string{`safetensors, LlamaForCausalLM, 2000640 parameters`, `chat_template\.jinja: 1297 bytes`,
			`model\.norm\.weight +BF16 .* [0-9a-f]{64} model-0000\d-of-00002\.safetensors`}},
		{"an importance matrix", []string{matrix}, 0, []string{`importance matrix\n`, `1 entries, 4 chunks`, `computed from "text" \(a name, not a proof\)`}},
		{"a matrix with a NaN", []string{damaged}, 1, []string{`warning: .*NaN or infinite`}},
		{"a damaged matrix", []string{cut}, 1, []string{`cut\.dat: imatrix: byte`}},
		{"a folder of GGUF files", []string{missing}, 1, []string{`the folder holds GGUF files: inspect .*lone\.gguf`}},
		{"one shard", []string{"../../fixtures/model/snapshot/model-00001-of-00002.safetensors", "--digest"}, 0, []string{`safetensors, no architecture named`, `sha256 [0-9a-f]{64}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, said := runSelf(t, append([]string{"inspect"}, c.args...)...)
			if code != c.code {
				t.Errorf("got exit code %d, want %d: %s", code, c.code, said)
			}
			for _, want := range c.want {
				if !regexp.MustCompile(want).MatchString(said) {
					t.Errorf("it does not say %s:\n%s", want, said)
				}
			}
		})
	}
	if _, said := runSelf(t, "inspect", "../../fixtures/llamacpp/Q8_0.gguf"); regexp.MustCompile(`STRING ×`).MatchString(said) {
		t.Errorf("raw keys are listed without --keys:\n%s", said)
	}
}

func write(t *testing.T, path string, body []byte) {
	t.Helper()
	if err := os.WriteFile(path, body, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestInspectNamesContainers reads config.json's word for how weights are stored.
func TestInspectNamesContainers(t *testing.T) {
	model, err := os.ReadFile("../../fixtures/model/snapshot/model-00002-of-00002.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	for config, want := range map[string]string{
		`{"architectures":["LlamaForCausalLM"],"quantization":{"group_size":64,"bits":4},"quantization_config":{"group_size":64,"bits":4}}`:  `safetensors \(MLX, 4 bits in groups of 64, affine\), LlamaForCausalLM`,
		`{"architectures":["LlamaForCausalLM"],"quantization":{"group_size":32,"bits":4,"mode":"mxfp4"}}`:                                    `MLX, 4 bits in groups of 32, mxfp4`,
		`{"architectures":["LlamaForCausalLM"],"quantization_config":{"quant_method":"compressed-tensors","format":"nvfp4-pack-quantized"}}`: `\(compressed-tensors, nvfp4-pack-quantized\)`,
		`{"architectures":["LlamaForCausalLM"],"quantization_config":{"quant_method":"modelopt","quant_algo":"NVFP4"}}`:                      `\(modelopt, NVFP4\)`,
		`{"architectures":["LlamaForCausalLM"],"quantization_config":{"quant_method":"gptq","bits":4}}`:                                      `\(gptq, 4 bits\)`,
		`{"architectures":["LlamaForCausalLM"],"tie_word_embeddings":true}`:                                                                  `tie_word_embeddings = (true and lm_head\.weight is here|false and lm_head\.weight is missing); what is there counts`,
		`{}`: `config\.json names no architecture`,
		`[`:  `warning: config\.json: `,
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "config.json"), []byte(config))
		write(t, filepath.Join(dir, "model.safetensors"), model)
		if code, said := runSelf(t, "inspect", dir); code != 0 || !regexp.MustCompile(want).MatchString(said) {
			t.Errorf("%s: got %d and no word of %s:\n%s", config, code, want, said)
		}
	}
}

// TestInspectCountsPackedWeights counts weights and not the words that they are packed
// into, names every way in which matrices are quantized, and refuses a folder whose config says another one.
func TestInspectCountsPackedWeights(t *testing.T) {
	damaged := func(folder, old, now string) string {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS("../../fixtures/"+folder)); err != nil {
			t.Fatal(err)
		}
		config, err := os.ReadFile(filepath.Join(dir, "config.json"))
		if err != nil || !bytes.Contains(config, []byte(old)) {
			t.Fatalf("got %v and no %s in %s", err, old, config)
		}
		write(t, filepath.Join(dir, "config.json"), bytes.ReplaceAll(config, []byte(old), []byte(now)))
		return dir
	}
	for _, c := range []struct {
		folder string
		code   int
		want   []string // regular expressions
	}{
		{"../../fixtures/mlx/affine-4-64", 0, []string{`LlamaForCausalLM, 238208 parameters`, `(?m)^    14 matrices affine 4 bits, groups of 64: 212992 weights$`}},
		{"../../fixtures/mlx/layered", 0, []string{`matrices affine 4 bits, groups of 64: `, `matrices affine 8 bits, groups of 32: `, `matrices mxfp4 4 bits, groups of 32: `}},
		{"../../fixtures/compressed/modelopt-nvfp4", 0, []string{`LlamaForCausalLM, 127360 parameters`, `7 matrices nvfp4, scales by group: 110592 weights`}},
		{"../../fixtures/compressed/ct-fp8-channel", 0, []string{`LlamaForCausalLM, 127360 parameters`, `7 matrices fp8, scales by channel: 110592 weights`}},
		{damaged("mlx/affine-4-64", `"bits": 4`, `"bits": 8`), 1, []string{`lm_head\.weight: got \[256 16\] words and scales \[256 2\], want shapes that affine 8 bits, groups of 64 gives`}},
		{damaged("mlx/affine-4-64", `"group_size": 64`, `"group_size": 48`), 1, []string{`mlx: config\.json: .*48`}},
		{damaged("compressed/ct-fp8", `"num_bits": 8`, `"num_bits": 4`), 0, []string{`\(compressed-tensors, .*\)`}}, // not read here: what it is stays a name
	} {
		code, said := runSelf(t, "inspect", c.folder)
		for _, want := range c.want {
			if code != c.code || !regexp.MustCompile(want).MatchString(said) {
				t.Errorf("%s: got exit code %d, want %d and %s:\n%s", c.folder, code, c.code, want, said)
			}
		}
	}
}

// TestInspectHoldsShapesAgainstTheConfig for every architecture with a mapping.
func TestInspectHoldsShapesAgainstTheConfig(t *testing.T) {
	folders, err := filepath.Glob("../../fixtures/architectures/*/hf")
	if err != nil || len(folders) < 14 {
		t.Fatalf("got %d folders, %v", len(folders), err)
	}
	sizes := regexp.MustCompile(`("intermediate_size"|"moe_intermediate_size"): (\d+)`)
	for _, folder := range folders {
		if code, said := runSelf(t, "inspect", folder); code != 0 || strings.Contains(said, "warning: ") {
			t.Errorf("%s: got %d and a doubt:\n%s", folder, code, said)
		}
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(folder)); err != nil {
			t.Fatal(err)
		}
		config, err := os.ReadFile(filepath.Join(dir, "config.json"))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "config.json"), sizes.ReplaceAll(config, []byte("$1: 1$2")))
		if code, said := runSelf(t, "inspect", dir); code != 0 || !regexp.MustCompile(`warning: .*(mlp|block_sparse_moe).* got .*want `).MatchString(said) {
			t.Errorf("%s with wider layers in its config: got %d and no doubt:\n%s", folder, code, said)
		}
	}
}

// TestInspectNamesWhatIsNotTheRecipes lists each tensor of another type than the nearest recipe's.
func TestInspectNamesWhatIsNotTheRecipes(t *testing.T) {
	code, said := runSelf(t, "inspect", "../../fixtures/byteorder/little.gguf")
	want := `of no recipe; the nearest is F32, with 1 other types\n    not the recipe's: t\.f16: got F16, want F32\n`
	if code != 0 || !regexp.MustCompile(want).MatchString(said) {
		t.Errorf("got %d and no word of %s:\n%s", code, want, said)
	}
}

// TestInspectPrintsAsGGUFHash compares with llama-gguf-hash's own output.
func TestInspectPrintsAsGGUFHash(t *testing.T) {
	folder := shared.Path(t, "data", "llama-grouped")
	want, err := os.ReadFile(filepath.Join(folder, "gguf-hash-Q4_K_M.txt"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "Q4_K_M.gguf")
	code, said := runSelf(t, "inspect", path, "--gguf-hash")
	if got := bytes.ReplaceAll([]byte(said), []byte(path), []byte("Q4_K_M.gguf")); code != 0 || !bytes.Equal(got, want) {
		t.Errorf("got %d and other lines than llama-gguf-hash:\n%s", code, said)
	}
}

// TestInspectJSONHoldsEverything decodes what programs read.
func TestInspectJSONHoldsEverything(t *testing.T) {
	code, said := runSelf(t, "inspect", shared.Path(t, "data", "llama-grouped", "Q4_K_M-im.gguf"), "--json", "--tensors", "--digest", "--gguf-hash")
	var s modelSummary
	if err := json.Unmarshal([]byte(said), &s); code != 0 || err != nil {
		t.Fatalf("got %d, %v: %s", code, err, said)
	}
	if s.Architecture != "llama" || s.Parameters != 3279120 || len(s.Types) != 3 || s.Types[0].Type != "Q4_K" || s.Types[0].Tensors != 25 {
		t.Errorf("got %+v", s)
	}
	if s.Tokenizer == nil || s.Tokenizer.Vocabulary != 512 || s.Tokenizer.Special[0].Text != "<s>" || s.Quantization == nil || *s.Quantization.FileType != 15 {
		t.Errorf("got %+v and %+v", s.Tokenizer, s.Quantization)
	}
	if len(s.Imatrix) != 4 || s.Recipe == nil || !s.Recipe.Exact || s.Recipe.Claimed != "Q4_K_M" || len(s.Warnings) != 0 {
		t.Errorf("got %+v, %+v, %v", s.Imatrix, s.Recipe, s.Warnings)
	}
	if len(s.Files) != 1 || len(s.Files[0].SHA256) != 64 || len(s.Files[0].GitBlob) != 40 || s.Model == nil || len(s.Model.XXH64) != 16 {
		t.Errorf("got %+v and %+v", s.Files, s.Model)
	}
	if len(s.Tensors) != 40 || len(s.Tensors[39].SHA256) != 64 || len(s.Tensors[39].XXH64) != 16 || len(s.Profiles) != 2 || !s.Profiles[0].Loads {
		t.Errorf("got %d tensors, %+v", len(s.Tensors), s.Profiles)
	}
	if s.Metadata["quantize.imatrix.dataset"] != `"corpus.txt"` {
		t.Errorf("got %v", s.Metadata)
	}
}
