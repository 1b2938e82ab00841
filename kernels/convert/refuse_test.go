package convert

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/weighmaster/weighmaster/fixtures/shared"
)

// TestOpenRefuses changes one thing of a real snapshot each; the error names it.
func TestOpenRefuses(t *testing.T) {
	dir := shared.Path(t, "data", "llama-odd", "hf")
	for _, c := range []struct{ name, file, from, to, want string }{
		{"another architecture", "config.json", `"LlamaForCausalLM"`, `"GPT2LMHeadModel"`, `architectures: got "GPT2LMHeadModel", which has no mapping to GGUF here; want one of LlamaForCausalLM, `},
		{"RoPE scaling of another kind", "config.json", `"rope_theta": 500000.0`, `"rope_theta": 500000.0, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}`, `rope_type: got "dynamic"`},
		{"the older spelling of it", "config.json", `"rope_theta": 500000.0`, `"rope_theta": 500000.0, "rope_scaling": {"type": "su", "factor": 4.0}`, `rope_type: got "su"`},
		{"experts", "config.json", `"vocab_size": 512`, `"vocab_size": 512, "num_local_experts": 8`, "num_local_experts"},
		{"a quantized checkpoint", "config.json", `"vocab_size": 512`, `"vocab_size": 512, "quantization_config": {"bits": 4}`, "quantization_config"},
		{"a key that stands twice", "config.json", `"vocab_size": 512`, `"vocab_size": 512, "vocab_size": 513`, "not usable JSON"},
		{"no heads", "config.json", `"num_attention_heads": 5`, `"num_attention_heads": 0`, "num_attention_heads: got 0"},
		{"heads that do not divide", "config.json", `"num_key_value_heads": 1`, `"num_key_value_heads": 3`, "key-value heads that divide the query heads"},
		{"a head count that the shapes contradict", "config.json", `"num_key_value_heads": 1`, `"num_key_value_heads": 5`, "k_proj.weight: shape: got [64 320], want [320 320]"},
		{"more layers than there are", "config.json", `"num_hidden_layers": 3`, `"num_hidden_layers": 4`, "missing tensors: got none of model.layers.3."},
		{"fewer layers than there are", "config.json", `"num_hidden_layers": 3`, `"num_hidden_layers": 2`, "got a layer beyond the 2 of config.json"},
		{"an unknown tensor", "model.safetensors", `model.norm.weight`, `model.worm.weight`, "tensor model.worm.weight: got a name that no LlamaForCausalLM has"},
		{"a truncated shard", "model.safetensors", "", "", "model.safetensors"},
	} {
		t.Run(c.name, func(t *testing.T) {
			snapshot := fstest.MapFS{}
			for _, name := range []string{"config.json", "model.safetensors", "tokenizer.model", "tokenizer_config.json"} {
				body, err := os.ReadFile(dir + "/" + name)
				if err != nil {
					t.Fatal(err)
				}
				if name == c.file && c.from == "" {
					body = body[:len(body)-1]
				} else if name == c.file {
					changed := strings.Replace(string(body), c.from, c.to, 1)
					if changed == string(body) {
						t.Fatalf("%s has no %s to change", name, c.from)
					}
					body = []byte(changed)
				}
				snapshot[name] = &fstest.MapFile{Data: body}
			}
			m, err := Open(snapshot)
			if err == nil {
				m.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error that says: %s", err, c.want)
			}
		})
	}
}
