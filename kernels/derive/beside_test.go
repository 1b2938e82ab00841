package derive

import (
	"bytes"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/convert"
)

// copied is a folder in memory, in which files can be edited: an edit with an empty old text adds a file.
func copied(t *testing.T, from fs.FS, edits ...string) Input {
	t.Helper()
	out := fstest.MapFS{}
	entries, err := fs.ReadDir(from, ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		body, err := fs.ReadFile(from, e.Name())
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = &fstest.MapFile{Data: body}
	}
	for i := 0; i < len(edits); i += 3 {
		name, old, now := edits[i], edits[i+1], edits[i+2]
		if old == "" {
			out[name] = &fstest.MapFile{Data: []byte(now)}
			continue
		}
		if !bytes.Contains(out[name].Data, []byte(old)) {
			t.Fatalf("%s: no %s", name, old)
		}
		out[name] = &fstest.MapFile{Data: bytes.ReplaceAll(out[name].Data, []byte(old), []byte(now))}
	}
	return Input{Snapshot: out}
}

// TestTheSameWeightsBesideOtherFilesAreNotIdentical, whatever form the folders have.
func TestTheSameWeightsBesideOtherFilesAreNotIdentical(t *testing.T) {
	hf, affine, fp4, block := os.DirFS(grouped(t, "hf")), os.DirFS("../../fixtures/mlx/affine-4-64"), os.DirFS("../../fixtures/mlx/mxfp4"), os.DirFS("../../fixtures/compressed/ct-fp8")
	unheard := unheardOf(t, grouped(t, "hf"))
	for name, c := range map[string]struct {
		source fs.FS
		edits  []string
		kind   Kind
		want   string // part of what is said of the files, or of the weights
	}{
		"nothing":                           {hf, nil, Identical, ""},
		"tied by the configuration":         {hf, []string{"config.json", `"tie_word_embeddings": false`, `"tie_word_embeddings": true`}, MetadataDiffers, "config.json: tie_word_embeddings: got true, want false"},
		"code beside the weights":           {hf, []string{"modeling.py", "", "import os"}, MetadataDiffers, "modeling.py: got in the target only"},
		"a pickle beside the weights":       {hf, []string{"pytorch_model.bin", "", "x"}, MetadataDiffers, "pytorch_model.bin: got in the target only"},
		"another RoPE base, not mapped":     {unheard, []string{"config.json", `500000`, `500`}, MetadataDiffers, "config.json: rope_theta: got 500"},
		"MLX, nothing":                      {affine, nil, Identical, ""},
		"MLX, another RoPE base":            {affine, []string{"config.json", `"rope_theta": 10000.0`, `"rope_theta": 3`}, MetadataDiffers, "config.json: rope_theta: got 3"},
		"MLX, another template":             {affine, []string{"chat_template.jinja", "{", "{ "}, MetadataDiffers, "chat_template.jinja: byte"},
		"MLX, words read in another way":    {affine, []string{"config.json", `"group_size": 64`, `"group_size": 32`, "config.json", `"bits": 4`, `"bits": 8`, "model.safetensors.index.json", "238208", "131712"}, NotDerived, "scheme: config.json: "},
		"MLX, one mode for another":         {fp4, nil, Identical, ""},
		"compressed, nothing":               {block, nil, Identical, ""},
		"compressed, another normalization": {block, []string{"config.json", `"rms_norm_eps": 1e-05`, `"rms_norm_eps": 0.5`}, MetadataDiffers, "config.json: rms_norm_eps: got 0.5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := Compare(t.Context(), Input{Snapshot: c.source}, copied(t, c.source, c.edits...), Options{})
			if err != nil {
				t.Fatal(err)
			}
			said := ""
			for _, f := range append(r.Metadata, r.Findings...) {
				said += f.String() + "\n"
			}
			if r.Kind != c.kind || !strings.Contains(said, c.want) || c.want == "" && said != "" {
				t.Errorf("got %q with %.600s; want %q that says %q", r.Kind, said, c.kind, c.want)
			}
		})
	}
}

// TestAQuantizedFolderOfAnotherConfigurationIsAnotherModel.
func TestAQuantizedFolderOfAnotherConfigurationIsAnotherModel(t *testing.T) {
	source := copied(t, os.DirFS("../../fixtures/compressed/source"), "tokenizer_config.json", "", `{"add_bos_token": false}`)
	for _, edits := range [][]string{nil, {"config.json", `"rms_norm_eps": 1e-05`, `"rms_norm_eps": 0.5`}, {"modeling.py", "", "import os"}, {"tokenizer_config.json", "", `{"add_bos_token": true}`}} {
		r, err := Compare(t.Context(), source, copied(t, os.DirFS("../../fixtures/compressed/modelopt-fp8-block"), edits...), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind != Quantization || r.Class != ClassB || (len(r.Metadata) > 0) != (edits != nil) || (r.MetadataVerdict() == kernels.Failed) != (edits != nil) {
			t.Errorf("%v: got %q, class %q, %s with %v", edits, r.Kind, r.Class, r.MetadataVerdict(), r.Metadata)
		}
	}
}

// TestScalesThatNoWeightDetermines are never accepted unsaid.
func TestScalesThatNoWeightDetermines(t *testing.T) {
	folder := func(name string) Input { return Input{Snapshot: os.DirFS("../../fixtures/compressed/" + name)} }
	r, err := Compare(t.Context(), folder("modelopt-nvfp4"), folder("modelopt-nvfp4-kv"), Options{})
	if err != nil || r.Kind != MoreScales {
		t.Errorf("got %q, %v, want %q", r.Kind, err, MoreScales)
	}
	r, err = Compare(t.Context(), folder("source"), folder("modelopt-fp8"), Options{})
	if err != nil || r.MetadataVerdict() != kernels.Undecided {
		t.Errorf("got %s for scales of activations, %v, %v, want undecided", r.MetadataVerdict(), r.Metadata, err)
	}
}

// TestRowsOfOtherTensorsAreNotMoved: an order that looks like a rotary one is none where
// no rotary embedding applies, or for another number of heads.
func TestRowsOfOtherTensorsAreNotMoved(t *testing.T) {
	for _, c := range []struct {
		tensor      string
		rows, heads int64
	}{{"token_embd.weight", 512, 128}, {"blk.0.ffn_down.weight", 256, 8}, {"blk.1.attn_output.weight", 256, 8}, {"blk.1.attn_q.weight", 256, 4}, {"blk.1.attn_k.weight", 64, 8}} {
		target := withBody(t, "Q8_0.gguf", func(r *rewritten) { r.rows(c.tensor, c.rows, convert.HeadOrder(c.rows, c.heads)) })
		r, err := Compare(t.Context(), gguf1(t, "Q8_0.gguf"), target, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind != NotDerived || len(r.Findings) != 1 || !strings.Contains(r.Findings[0].String(), "in another order, which is no rotary one") {
			t.Errorf("%s by %d heads: got %q with %v, want not derived", c.tensor, c.heads, r.Kind, r.Findings)
		}
	}
}

// TestMovedRowsAreNoRecomputedFile: their bytes were taken from the target, not made from the source.
func TestMovedRowsAreNoRecomputedFile(t *testing.T) {
	target := withBody(t, "Q8_0.gguf", func(r *rewritten) { r.rows("blk.1.attn_q.weight", 256, convert.HeadOrder(256, 8)) })
	r, err := Compare(t.Context(), gguf1(t, "Q8_0.gguf"), target, Options{})
	if err != nil || r.Kind != RowsMoved || r.Whole != nil {
		t.Errorf("got %q, whole file %v, %v; want moved rows and no digest", r.Kind, r.Whole, err)
	}
}
