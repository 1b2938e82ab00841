package mlx

import (
	"context"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/memfs"
	"github.com/weighmaster/weighmaster/kernels/number"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// refused compares and gives the findings as one text.
func refused(t *testing.T, source, folder memfs.FS) string {
	t.Helper()
	_, found, err := compareFolders(context.Background(), source, folder, nil)
	if err != nil {
		return err.Error()
	}
	var lines []string
	for _, f := range found {
		lines = append(lines, f.String())
	}
	return strings.Join(lines, "\n")
}

func TestHostileConfigurationsAreNamed(t *testing.T) {
	const now = `"quantization":{"bits":4,"group_size":64,"mode":"affine"}`
	for name, c := range map[string]struct{ quantization, want string }{
		"7 bits":              {`{"bits":7,"group_size":64}`, "affine 7 bits, groups of 64"},
		"0 bits":              {`{"bits":0,"group_size":64}`, "affine 0 bits, groups of 64"},
		"group 0":             {`{"bits":4,"group_size":0}`, "affine 4 bits, groups of 0"},
		"negative group":      {`{"bits":4,"group_size":-64}`, "group_size -64"},
		"huge group":          {`{"bits":4,"group_size":18446744073709551680}`, "group_size 18446744073709551680"},
		"bits as text":        {`{"bits":"4","group_size":64}`, "bits 4"},
		"fraction":            {`{"bits":4.5,"group_size":64}`, "bits 4.5"},
		"mode of nobody":      {`{"bits":4,"group_size":64,"mode":"nf4"}`, `mode "nf4"`},
		"mode as number":      {`{"mode":4}`, `mode "4"`},
		"mxfp4 with 8 bits":   {`{"bits":8,"group_size":32,"mode":"mxfp4"}`, "mxfp4 8 bits"},
		"no object":           {`true`, "got true, want an object"},
		"another group":       {`{"bits":4,"group_size":32}`, "want shapes that affine 4 bits, groups of 32 gives"},
		"another mode":        {`{"bits":4,"group_size":32,"mode":"mxfp4"}`, "BF16, want U8, mode mxfp4"},
		"same packing":        {`{"bits":8,"group_size":32}`, "got shape [8 64], want [8 128]"},
		"false for a matrix":  {`{"bits":4,"group_size":64,"model.layers.0.mlp.up_proj":false}`, "no scheme, for a matrix that has scales"},
		"entry for no matrix": {`{"bits":4,"group_size":64,"model.layers.1.mlp.up_proj":{"bits":4,"group_size":64}}`, "want an entry for a matrix that the shards hold quantized"},
		"bad entry":           {`{"bits":4,"group_size":64,"model.layers.0.mlp.up_proj":{"bits":9}}`, "affine 9 bits"},
	} {
		source, folder := example()
		replace(t, folder, ConfigName, now, `"quantization":`+c.quantization)
		replace(t, folder, ConfigName, `"quantization_config":{"bits":4,"group_size":64,"mode":"affine"}`, `"quantization_config":`+c.quantization)
		delete(folder, safetensors.IndexName) // whose number of parameters would be wrong as well
		if got := refused(t, source, folder); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestFoldersAreRefusedForTheirReason(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, source, folder memfs.FS)
		want   string
	}{
		"a second BOS": {func(_ *testing.T, s, f memfs.FS) {
			s["tokenizer_config.json"] = []byte(`{"add_bos_token": false}`)
			f["tokenizer_config.json"] = []byte(`{"add_bos_token": true}`)
		}, "tokenizer_config.json: add_bos_token: got true, want false, as in the source"},
		"no config":            {func(t *testing.T, _, f memfs.FS) { delete(f, ConfigName) }, "without it nothing says how the matrices are packed"},
		"config of two":        {func(t *testing.T, _, f memfs.FS) { f[ConfigName] = []byte(`{}{}`) }, "text after the value"},
		"quantization missing": {func(t *testing.T, _, f memfs.FS) { replace(t, f, ConfigName, `"quantization":`, `"quant":`) }, "absent beside a quantization_config"},
		"stale shard": {func(t *testing.T, _, f memfs.FS) {
			f["model-00001-of-00002.safetensors"] = f[safetensors.SingleName]
		}, safetensors.CheckStrayShard},
		"saved by another tool": {func(t *testing.T, _, f memfs.FS) {
			replace(t, f, safetensors.SingleName, `{"format":"mlx"}`, `{"format":"abc"}`)
		}, CheckFormat},
		"source without the matrix": {func(t *testing.T, s, _ memfs.FS) {
			replace(t, s, safetensors.SingleName, exampleMatrix, strings.Replace(exampleMatrix, "up", "xx", 1))
		}, "the tensor that it was made from"},
		"template with another line": {func(t *testing.T, _, f memfs.FS) {
			f[templateName] = []byte("{{ messages }}\nHarmful")
		}, `default: line 2: got "Harmful", want ""`},
		"template in tokenizer_config.json": {func(t *testing.T, _, f memfs.FS) {
			delete(f, templateName)
			f["tokenizer_config.json"] = []byte(`{"chat_template": "{{ other }}"}`)
		}, CheckTemplate},
		"code of its own": {func(t *testing.T, _, f memfs.FS) { f["x.py"] = []byte("import os") }, CheckCode},
		"other code": {func(t *testing.T, s, f memfs.FS) {
			s["x.py"], f["x.py"] = []byte("1"), []byte("2")
		}, CheckCode},
		"template of its own": {func(t *testing.T, s, _ memfs.FS) { delete(s, templateName) }, "default: got a template, want none, as in the source"},
		"template left out":   {func(t *testing.T, _, f memfs.FS) { delete(f, templateName) }, "default: got no template, want the source's"},
		"another tokenizer.model": {func(t *testing.T, s, f memfs.FS) {
			s["tokenizer.model"], f["tokenizer.model"] = []byte("1"), []byte("2")
		}, "tokenizer.model: got other bytes, want the source's"},
		"tokenizer.json left out": {func(t *testing.T, _, f memfs.FS) { delete(f, "tokenizer.json") }, CheckTokenizer + ": tokenizer.json: got absent"},
		"another RoPE theta":      {func(t *testing.T, _, f memfs.FS) { replace(t, f, ConfigName, `10000`, `10001`) }, "config.json: rope_theta: got 10001, want 10000, as in the source"},
		"another merge":           {func(t *testing.T, _, f memfs.FS) { replace(t, f, "tokenizer.json", `"b"`, `"c"`) }, CheckTokenizer},
	} {
		source, folder := example()
		c.change(t, source, folder)
		if got := refused(t, source, folder); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestSameFilesInAnotherFormAreEqual: what saving again changes is no difference.
func TestSameFilesInAnotherFormAreEqual(t *testing.T) {
	source, folder := example()
	delete(folder, templateName)
	folder["tokenizer_config.json"] = []byte(`{"chat_template": "{{ messages }}"}`)
	folder["tokenizer.json"] = []byte(`{"model": {"merges": ["a b"]}}`)
	replace(t, folder, ConfigName, `10000`, `10000.0`)
	if got := refused(t, source, folder); got != "" {
		t.Error(got)
	}
}

// TestEditedSourcesAreSeen: the folder is honest, the source is not the one that it was made from.
func TestEditedSourcesAreSeen(t *testing.T) {
	folder := os.DirFS(filepath.Join(fixtures, "affine-4-64"))
	m, err := safetensors.OpenSnapshot(os.DirFS(filepath.Join(fixtures, "source")))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	matrix, _ := m.Lookup("model.layers.1.self_attn.k_proj.weight")
	edit := func(change func(row, column int, x float32) float32) Result {
		source := memory(t, filepath.Join(fixtures, "source"))
		data := source[safetensors.SingleName]
		for i := range int(matrix.Elements()) {
			at := int(matrix.Begin) + 2*i
			x := math.Float32frombits(uint32(binary.LittleEndian.Uint16(data[at:])) << 16)
			number.BF16.Append(data[at:at], change(i/128, i%128, x))
		}
		return compare(t, source, folder)
	}
	u, v := exampleWeights(64), exampleWeights(128)
	norm := 0.0
	for i := range u {
		for j := range v {
			norm += float64(u[i]) * float64(u[i]) * float64(v[j]) * float64(v[j])
		}
	}
	sum := 0.0
	edit(func(_, _ int, x float32) float32 { sum += float64(x) * float64(x); return x })
	low := float32(0.01 * math.Sqrt(sum/norm))
	for name, c := range map[string]struct {
		change func(row, column int, x float32) float32
		want   Outcome
	}{
		"nothing":                      {func(_, _ int, x float32) float32 { return x }, Recomputed},
		"low-rank change of 1 percent": {func(r, c int, x float32) float32 { return x + low*u[r]*v[c] }, Differs},
		"one weight by more than half a step": {func(r, c int, x float32) float32 {
			if r == 7 && c == 70 {
				return x + 0.2
			}
			return x
		}, Differs},
		"every weight by a factor": {func(_, _ int, x float32) float32 { return x * 1.05 }, Differs},
	} {
		r := edit(c.change)
		one, _ := r.Tensor("model.layers.1.self_attn.k_proj.weight")
		if one.Outcome != c.want || (r.Verdict == kernels.Passed) != (c.want == Recomputed) {
			t.Errorf("%s: got %s and %s, %+v, want %s", name, one.Outcome, r.Verdict, one, c.want)
		}
	}
}
