package derive

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/folder"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// written is a GGUF of these tensors.
func written(t *testing.T, sources ...gguf.TensorSource) Input {
	t.Helper()
	var out bytes.Buffer
	kvs := []gguf.KV{
		{Key: "general.architecture", Value: gguf.String("llama")}, {Key: "llama.block_count", Value: gguf.Uint32(1)},
		{Key: "llama.attention.head_count", Value: gguf.Uint32(4)}, {Key: "llama.attention.head_count_kv", Value: gguf.Uint32(4)},
	}
	if err := gguf.Write(&out, kvs, sources); err != nil {
		t.Fatal(err)
	}
	return Input{GGUF: &File{R: bytes.NewReader(out.Bytes()), Size: int64(out.Len())}}
}

func one(name string, typ gguf.Type, body []byte, dims ...uint64) gguf.TensorSource {
	return gguf.TensorSource{Name: name, Dims: dims, Type: typ, Data: func(w io.Writer) error { _, err := w.Write(body); return err }}
}

// TestRowsOfNoWeights: legal in safetensors, and nothing to divide by.
func TestRowsOfNoWeights(t *testing.T) {
	empty := fstest.MapFS{
		"config.json": {Data: []byte(`{"architectures": ["UnheardOfForCausalLM"]}`)},
		safetensors.SingleName: {Data: folder.Safetensors(map[string]folder.Tensor{
			"none": {DType: safetensors.BF16, Shape: []uint64{5, 0}}, "neither": {DType: safetensors.F32, Shape: []uint64{0}},
			"some": {DType: safetensors.F32, Shape: []uint64{2, 2}, Data: make([]byte, 16)}}, map[string]string{"format": "pt"})},
	}
	file := written(t, one("a", gguf.F32, make([]byte, 16), 2, 2))
	for _, pair := range [][2]Input{{{Snapshot: empty}, file}, {file, {Snapshot: empty}}, {{Snapshot: empty}, {Snapshot: empty}}} {
		if r, err := Compare(t.Context(), pair[0], pair[1], Options{}); err != nil || r.Kind == NotDerived {
			t.Errorf("got %q, %v, want content found", r.Kind, err)
		}
	}
}

// TestAnotherTypeOfFloatsIsStatedInTheConfiguration, which does not make the folder another model.
func TestAnotherTypeOfFloatsIsStatedInTheConfiguration(t *testing.T) {
	model := func(config string, d safetensors.DType, body []byte) Input {
		return Input{Snapshot: fstest.MapFS{"config.json": {Data: []byte(config)}, safetensors.SingleName: {Data: folder.Safetensors(
			map[string]folder.Tensor{"w": {DType: d, Shape: []uint64{1, 2}, Data: body}}, map[string]string{"format": "pt"})}}}
	}
	source := model(`{"architectures": ["UnheardOfForCausalLM"], "torch_dtype": "bfloat16", "theta": 1}`, safetensors.BF16, []byte{0x80, 0x3f, 0, 0x40})
	wide := []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0x40}
	for config, want := range map[string]kernels.Verdict{
		`{"architectures": ["UnheardOfForCausalLM"], "torch_dtype": "float32", "theta": 1}`: kernels.Passed,
		`{"architectures": ["UnheardOfForCausalLM"], "torch_dtype": "float32", "theta": 2}`: kernels.Failed,
	} {
		r, err := Compare(t.Context(), source, model(config, safetensors.F32, wide), Options{})
		if err != nil || r.Kind != Conversion || r.MetadataVerdict() != want {
			t.Errorf("%s: got %q, %s, %v, %v; want an exact conversion, %s", config, r.Kind, r.MetadataVerdict(), r.Metadata, err, want)
		}
	}
}

// TestABiasInBlocksIsNotMoved: single numbers of a block cannot be moved, and other blocks are other numbers.
func TestABiasInBlocksIsNotMoved(t *testing.T) {
	a, b := make([]byte, 68), make([]byte, 68)
	b[10] = 3
	r, err := Compare(t.Context(), written(t, one("blk.0.attn_q.bias", gguf.Q8_0, a, 64)), written(t, one("blk.0.attn_q.bias", gguf.Q8_0, b, 64)), Options{})
	if err != nil || r.Kind != NotDerived || len(r.Moved) != 0 {
		t.Errorf("got %q, moved %v, %v, want not derived", r.Kind, r.Moved, err)
	}
}

// TestManyMovedRowsTakeLittleMemory: a million rows of which two are exchanged.
func TestManyMovedRowsTakeLittleMemory(t *testing.T) {
	const rows = 1 << 20
	a := make([]byte, 4*rows)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range a {
		a[i] = byte(r.Uint32())
	}
	b := bytes.Clone(a)
	copy(b[20:24], a[36:40])
	copy(b[36:40], a[20:24])
	source, target := written(t, one("blk.0.attn_q.weight", gguf.I8, a, 4, rows)), written(t, one("blk.0.attn_q.weight", gguf.I8, b, 4, rows))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := Compare(t.Context(), source, target, Options{})
	runtime.ReadMemStats(&after)
	if err != nil || got.Kind != NotDerived {
		t.Errorf("got %q, %v, want not derived", got.Kind, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 32<<20 {
		t.Errorf("allocated %d MiB for two exchanged rows, want at most 32", used>>20)
	}
}

// TestRopeFactorsThatLieNearAreSaidSo: not every bit of them follows.
func TestRopeFactorsThatLieNearAreSaidSo(t *testing.T) {
	near := withBody(t, "Q8_0.gguf", func(r *rewritten) { r.bodies["rope_freqs.weight"][4] ^= 1 })
	r, err := Compare(t.Context(), Input{Snapshot: os.DirFS(grouped(t, "hf"))}, near, Options{})
	if err != nil || r.Kind != Quantization || r.Class != ClassB || !strings.HasPrefix(r.Unproven, "The last bits of the RoPE factors") || r.Whole != nil {
		t.Errorf("got %q, class %q, %q, %v; want class B for the last bits", r.Kind, r.Class, r.Unproven, err)
	}
	stacked := rewrite(t, grouped(t, "Q8_0.gguf"), func(_ *testing.T, r *rewritten) {
		for i := range r.tensors {
			if r.tensors[i].Name == "rope_freqs.weight" {
				r.tensors[i].Dims = []uint64{r.tensors[i].Dims[0] / 2, 2}
			}
		}
	})
	if r, err = Compare(t.Context(), Input{Snapshot: os.DirFS(grouped(t, "hf"))}, Input{GGUF: &stacked}, Options{}); err != nil || r.Kind != NotDerived {
		t.Errorf("got %q, %v; want another shape refused", r.Kind, err)
	}
}
