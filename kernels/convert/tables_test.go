package convert

import (
	"slices"
	"strings"
	"testing"
)

// TestEveryTableIsOneToOne: no name stands twice, and experts alone share a product.
func TestEveryTableIsOneToOne(t *testing.T) {
	for _, a := range Architectures() {
		hf, products := map[string]bool{}, map[string]bool{}
		for i := range a.Mappings {
			m := &a.Mappings[i]
			found, layer, expert, ok := a.Find(m.source(17, 3))
			if !ok || found != m || (layer == 17) != m.layered() || (expert == 3) != m.Stacks() {
				t.Errorf("%s: %s is found as %v, layer %d, expert %d", a.HF, m.source(17, 3), found, layer, expert)
			}
			if hf[m.HF] || m.Transform != Drop && products[m.GGUF] {
				t.Errorf("%s: %s or %s stands twice", a.HF, m.HF, m.GGUF)
			}
			hf[m.HF], products[m.GGUF] = true, true
			if strings.Contains(m.GGUF, "{n}") != m.layered() && m.Transform != Drop || m.Stacks() && (!m.layered() || len(m.Shape) != 2) {
				t.Errorf("%s: %s gives %s", a.HF, m.HF, m.GGUF)
			}
		}
		if slices.Contains(a.Scaling, "llama3") != (a.GGUF == "llama") {
			t.Errorf("%s: llama3 scaling reaches GGUF as rope_freqs for llama alone", a.HF)
		}
	}
}

func TestNamesInOtherFormsAreUnknown(t *testing.T) {
	for _, name := range []string{
		"model.layers.07.input_layernorm.weight", "model.layers.-1.input_layernorm.weight", "model.layers.{n}.input_layernorm.weight",
		"model.layers.+1.input_layernorm.weight", "model.layers.4294967296.input_layernorm.weight", "model.layers.input_layernorm.weight",
		"blk.0.attn_q.weight", "model.layers.0.mlp.experts.0.gate_proj.weight", "model.layers.0.1.input_layernorm.weight", "",
	} {
		if m, layer, expert, ok := llama.Find(name); ok || layer != -1 || expert != -1 {
			t.Errorf("%q: got %v, want no mapping", name, m)
		}
	}
}
