package derive

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/convert"
)

// unheardOf is a real snapshot under the name of an architecture that has no mapping.
func unheardOf(t *testing.T, dir string) fstest.MapFS {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	folder := fstest.MapFS{}
	for _, e := range entries {
		body, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		folder[e.Name()] = &fstest.MapFile{Data: body}
	}
	config := folder["config.json"]
	changed := bytes.Replace(config.Data, []byte("LlamaForCausalLM"), []byte("UnheardOfForCausalLM"), 1)
	if bytes.Equal(changed, config.Data) {
		t.Fatal("the config names no LlamaForCausalLM")
	}
	folder["config.json"] = &fstest.MapFile{Data: changed}
	return folder
}

// TestAnArchitectureWithoutAMapping finds every tensor by its content, Q and K
// rows in another order included, and still does not call it derived.
func TestAnArchitectureWithoutAMapping(t *testing.T) {
	source := Input{Snapshot: unheardOf(t, grouped(t, "hf"))}
	mapped, err := convert.Open(os.DirFS(grouped(t, "hf")))
	if err != nil {
		t.Fatal(err)
	}
	defer mapped.Close()
	names := map[string]string{}
	for _, tensor := range mapped.Tensors {
		names[tensor.Name] = tensor.Source
	}
	for i, c := range []struct {
		file    string
		matches int
	}{{"BF16.gguf", 39}, {"Q8_0.gguf", 39}, {"Q4_K_M.gguf", 39}} {
		if i%thin != 0 {
			continue
		}
		r, err := Compare(t.Context(), source, gguf1(t, c.file), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind != ContentPartly || r.Class != None || r.Bijection == nil {
			t.Fatalf("%s: got %q, class %q, want %q", c.file, r.Kind, r.Class, ContentPartly)
		}
		b := r.Bijection
		if b.Architecture != "UnheardOfForCausalLM" || len(b.Matches) != c.matches || len(b.OnlySource) != 0 {
			t.Errorf("%s: got architecture %s, %d matches, only in the source %v; want UnheardOfForCausalLM, %d, none", c.file, b.Architecture, len(b.Matches), b.OnlySource, c.matches)
		}
		if len(b.OnlyTarget) != 1 || b.OnlyTarget[0] != convert.RopeFreqs {
			t.Errorf("%s: got left over in the target %v, want the computed %s", c.file, b.OnlyTarget, convert.RopeFreqs)
		}
		for _, m := range b.Matches {
			rotary := strings.HasSuffix(m.Target, "attn_q.weight") || strings.HasSuffix(m.Target, "attn_k.weight")
			hf := names[m.Target]
			if hf != m.Source || m.Moved != rotary {
				t.Errorf("%s: got %s from %s, rows moved %v; want from %s, %v", c.file, m.Target, m.Source, m.Moved, hf, rotary)
			}
		}
	}
}

// TestOneWeightIsLeftOverWithoutAMapping: the content of one tensor is not there any more.
func TestOneWeightIsLeftOverWithoutAMapping(t *testing.T) {
	changed := rewrite(t, grouped(t, "BF16.gguf"), func(t *testing.T, r *rewritten) { r.bodies["blk.2.ffn_up.weight"][5] ^= 1 })
	r, err := Compare(t.Context(), Input{Snapshot: unheardOf(t, grouped(t, "hf"))}, Input{GGUF: &changed}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if b := r.Bijection; len(b.OnlySource) != 1 || b.OnlySource[0] != "model.layers.2.mlp.up_proj.weight" || len(b.OnlyTarget) != 2 || b.OnlyTarget[1] != "blk.2.ffn_up.weight" {
		t.Errorf("got left over %v and %v, want the changed tensor", b.OnlySource, b.OnlyTarget)
	}
	report, err := Check(t.Context(), Input{Snapshot: unheardOf(t, grouped(t, "hf"))}, changed, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if report.Verdict != kernels.Undecided || !strings.Contains(report.Findings[0].String(), `"UnheardOfForCausalLM", which has no mapping`) {
		t.Errorf("got %s with %v, want undecided for the architecture", report.Verdict, report.Findings)
	}
}

// TestTwoSnapshotsWithoutAMapping are compared under their own names.
func TestTwoSnapshotsWithoutAMapping(t *testing.T) {
	one, other := unheardOf(t, grouped(t, "hf")), unheardOf(t, grouped(t, "hf"))
	r, err := Compare(t.Context(), Input{Snapshot: one}, Input{Snapshot: other}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Kind != Identical || r.Class != ClassA {
		t.Errorf("got %q, class %q, want identical, A", r.Kind, r.Class)
	}
	shard := other["model-00002-of-00002.safetensors"]
	body := bytes.Clone(shard.Data)
	body[len(body)-1] ^= 1
	other["model-00002-of-00002.safetensors"] = &fstest.MapFile{Data: body}
	if r, err = Compare(t.Context(), Input{Snapshot: one}, Input{Snapshot: other}, Options{}); err != nil {
		t.Fatal(err)
	}
	if r.Kind != NotDerived || len(r.Findings) != 1 {
		t.Errorf("got %q with %v, want not derived with one finding", r.Kind, r.Findings)
	}
}
