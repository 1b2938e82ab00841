package convert

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// loadFixture reads a fixture's checkpoint into memory.
func loadFixture(t testing.TB, name string) fstest.MapFS {
	t.Helper()
	dir := filepath.Join(architecturesDir, name, "hf")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	fsys := fstest.MapFS{}
	for _, e := range entries {
		body, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		fsys[e.Name()] = &fstest.MapFile{Data: body}
	}
	return fsys
}

// header is a safetensors header.
type header map[string]struct {
	DType   string    `json:"dtype"`
	Shape   []int     `json:"shape"`
	Offsets [2]uint64 `json:"data_offsets"`
}

// editHeader changes the tensors of a file, leaving their bytes.
func editHeader(t testing.TB, fsys fstest.MapFS, edit func(h header)) {
	t.Helper()
	const file = "model.safetensors"
	body := fsys[file].Data
	n := binary.LittleEndian.Uint64(body)
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(body[8:8+n], &raw); err != nil {
		t.Fatal(err)
	}
	delete(raw, "__metadata__")
	h := header{}
	for name, tensor := range raw {
		entry := h[name]
		if err := json.Unmarshal(tensor, &entry); err != nil {
			t.Fatal(err)
		}
		h[name] = entry
	}
	edit(h)
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	out := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	fsys[file] = &fstest.MapFile{Data: append(out, body[8+n:]...)}
}

// unshard makes one file of a checkpoint's shards.
func unshard(t testing.TB, fsys fstest.MapFS) {
	t.Helper()
	h, data := header{}, []byte{}
	for name, file := range fsys {
		if !strings.HasSuffix(name, ".safetensors") {
			continue
		}
		n := binary.LittleEndian.Uint64(file.Data)
		var raw map[string]json.RawMessage
		if err := json.Unmarshal(file.Data[8:8+n], &raw); err != nil {
			t.Fatal(err)
		}
		for tensor, text := range raw {
			entry := h[tensor]
			if tensor == "__metadata__" || json.Unmarshal(text, &entry) != nil {
				continue
			}
			entry.Offsets[0] += uint64(len(data))
			entry.Offsets[1] += uint64(len(data))
			h[tensor] = entry
		}
		data = append(data, file.Data[8+n:]...)
		delete(fsys, name)
	}
	delete(fsys, "model.safetensors.index.json")
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	out := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	fsys["model.safetensors"] = &fstest.MapFile{Data: append(out, data...)}
}

func rename(from, to string) func(header) {
	return func(h header) { h[to] = h[from]; delete(h, from) }
}

func reshape(name string, shape ...int) func(header) {
	return func(h header) { e := h[name]; e.Shape = shape; h[name] = e }
}

// TestTamperedCheckpointsAreRefused changes one tensor of a checkpoint of every
// architecture each; the error names it. A tensor under another name is a missing
// one and an unknown one; the unknown one is named first.
func TestTamperedCheckpointsAreRefused(t *testing.T) {
	for _, c := range []struct {
		model, name string
		edit        func(header)
		want        string
	}{
		{"llama3", "an extra tensor", rename("model.norm.weight", "model.norm.bias"), "tensor model.norm.bias: got a name that no LlamaForCausalLM has"},
		{"llama-biases", "a bias that one layer lacks", rename("model.layers.1.mlp.up_proj.bias", "model.layers.1.self_attn.rotary_emb.inv_freq"), "missing tensors: got none of model.layers.1.mlp.up_proj.bias"},
		{"llama2", "a layer too many", rename("model.layers.10.mlp.up_proj.weight", "model.layers.11.mlp.up_proj.weight"), "tensor model.layers.11.mlp.up_proj.weight: got a layer beyond the 11"},
		{"mistral", "a bias that Mistral has not", rename("model.layers.0.input_layernorm.weight", "model.layers.0.self_attn.q_proj.bias"), "tensor model.layers.0.self_attn.q_proj.bias: got a name that no MistralForCausalLM has"},
		{"mistral-nemo", "a matrix the other way round", reshape("model.layers.0.self_attn.o_proj.weight", 64, 40), "tensor model.layers.0.self_attn.o_proj.weight: shape: got [64 40], want [40 64]"},
		{"qwen2", "no bias on V", rename("model.layers.0.self_attn.v_proj.bias", "model.layers.0.self_attn.rotary_emb.inv_freq"), "missing tensors: got none of model.layers.0.self_attn.v_proj.bias"},
		{"qwen2-yarn", "an unknown name", rename("model.layers.1.self_attn.q_proj.weight", "model.layers.1.self_attn.Q_proj.weight"), "tensor model.layers.1.self_attn.Q_proj.weight: got a name"},
		{"qwen3", "no Q norm", rename("model.layers.1.self_attn.q_norm.weight", "model.layers.1.self_attn.rotary_emb.inv_freq"), "missing tensors: got none of model.layers.1.self_attn.q_norm.weight"},
		{"qwen3-moe", "an expert that is missing", rename("model.layers.1.mlp.experts.11.up_proj.weight", "model.layers.1.self_attn.rotary_emb.inv_freq"), "missing tensors: got none of model.layers.1.mlp.experts.11.up_proj.weight"},
		{"qwen3-moe", "an expert too many", rename("model.layers.1.mlp.experts.11.up_proj.weight", "model.layers.1.mlp.experts.12.up_proj.weight"), "tensor model.layers.1.mlp.experts.12.up_proj.weight: got an expert beyond the 12"},
		{"qwen3-moe", "an expert of another shape", reshape("model.layers.0.mlp.experts.3.down_proj.weight", 8, 48), "tensor model.layers.0.mlp.experts.3.down_proj.weight: shape: got [8 48], want [48 8]"},
		{"qwen3-moe", "an expert of another type", func(h header) {
			e := h["model.layers.0.mlp.experts.3.down_proj.weight"]
			e.DType = "F16"
			h["model.layers.0.mlp.experts.3.down_proj.weight"] = e
		}, "tensor model.layers.0.mlp.experts.3.down_proj.weight: dtype: got F16, want BF16 as the first expert"},
		{"mixtral", "no router", rename("model.layers.0.block_sparse_moe.gate.weight", "model.layers.0.self_attn.rotary_emb.inv_freq"), "missing tensors: got none of model.layers.0.block_sparse_moe.gate.weight"},
		{"mixtral", "one expert's tensor under a number that stands already", rename("model.layers.0.block_sparse_moe.experts.2.w3.weight", "model.layers.0.block_sparse_moe.experts.02.w3.weight"), "experts.02.w3.weight: got a name that no MixtralForCausalLM has"},
		{"gemma2", "no norm after the feed-forward", rename("model.layers.0.post_feedforward_layernorm.weight", "model.layers.0.self_attn.rotary_emb.inv_freq"), "missing tensors: got none of model.layers.0.post_feedforward_layernorm.weight"},
		{"gemma3", "a norm of another length", func(h header) {
			rename("model.layers.0.self_attn.q_norm.weight", "x")(h)
			rename("model.layers.0.input_layernorm.weight", "model.layers.0.self_attn.q_norm.weight")(h)
			rename("x", "model.layers.0.input_layernorm.weight")(h)
		}, "norm.weight: shape: got"},
		{"gemma3-vision", "a tensor of no part", rename("language_model.model.norm.weight", "audio_tower.norm.weight"), "tensor audio_tower.norm.weight: got a name"},
		{"gemma3-vision", "a norm twice", rename("multi_modal_projector.mm_soft_emb_norm.weight", "model.language_model.norm.weight"), "tensors language_model.model.norm.weight and model.language_model.norm.weight: got two of one meaning"},
		{"gemma3-vision", "no norm after attention", rename("language_model.model.layers.1.post_attention_layernorm.weight", "vision_tower.x"), "missing tensors: got none of model.layers.1.post_attention_layernorm.weight"},
		{"phi3", "Q alone", rename("model.layers.0.self_attn.qkv_proj.weight", "model.layers.0.self_attn.q_proj.weight"), "tensor model.layers.0.self_attn.q_proj.weight: got a name that no Phi3ForCausalLM has"},
		{"phi3-long", "integers for weights", func(h header) {
			e := h["model.norm.weight"]
			e.DType = "I16"
			h["model.norm.weight"] = e
		}, "tensor model.norm.weight: dtype: got I16, want BF16, F16 or F32"},
	} {
		t.Run(c.model+" "+c.name, func(t *testing.T) {
			fsys := loadFixture(t, c.model)
			unshard(t, fsys)
			if m, err := Open(fsys); err != nil {
				t.Fatalf("unchanged: %v", err)
			} else {
				m.Close()
			}
			editHeader(t, fsys, c.edit)
			refused(t, fsys, c.want)
		})
	}
}

func refused(t *testing.T, fsys fstest.MapFS, want string) {
	t.Helper()
	m, err := Open(fsys)
	if err == nil {
		m.Close()
	}
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want an error that says: %s", err, want)
	}
}

// TestConfigsThatAConversionWouldLoseAreRefused sets one field of a real config each; the error names it.
func TestConfigsThatAConversionWouldLoseAreRefused(t *testing.T) {
	for _, c := range []struct{ model, field, value, want string }{
		{"gemma2", "rope_theta", "500000.0", "rope_theta: got 500000, want 10000: the GGUF of Gemma2ForCausalLM does not hold it"},
		{"gemma2", "rope_scaling", `{"type":"linear","factor":2.0}`, `rope_type: got "linear", want default`},
		{"gemma2", "attn_logit_softcapping", "null", "attn_logit_softcapping: got null, want a number"},
		{"gemma2", "hidden_activation", `"gelu"`, `hidden_activation: got "gelu", want gelu_pytorch_tanh`},
		{"gemma2", "sliding_window", "null", "sliding_window: got none"},
		{"gemma3", "attn_logit_softcapping", "50.0", "attn_logit_softcapping: got 50, want none: GGUF's gemma3 does not hold it"},
		{"gemma3", "rope_scaling", `{"rope_type":"yarn","factor":2.0}`, `rope_type: got "yarn"`},
		{"gemma3", "rope_local_base_freq", "-1", "rope_local_base_freq: got -1"},
		{"gemma3", "rope_parameters", `{"sliding_attention":{"rope_theta":10000.0}}`, "got no full_attention"},
		{"gemma3", "rope_parameters", `{"full_attention":{"rope_theta":1e6},"sliding_attention":{"rope_type":"linear","factor":2.0}}`, `sliding_attention: rope_type: got "linear"`},
		{"gemma3-vision", "text_config", "null", "text_config: got none"},
		{"gemma3-vision", "text_config", `{"hidden_size":"x"}`, "text_config: json"},
		{"gemma3-vision", "text_config", `{"hidden_size":16,"intermediate_size":32,"num_hidden_layers":2}`, "shape: got [320 16], want [262208 16]"},
		{"qwen2", "rope_scaling", `{"rope_type":"llama3","factor":8.0}`, `rope_type: got "llama3"`},
		{"qwen2-yarn", "rope_scaling", `{"type":"yarn","factor":4.0}`, "original_max_position_embeddings: got none"},
		{"qwen2-yarn", "rope_scaling", `{"type":"yarn","original_max_position_embeddings":32768}`, "factor: got none, want the factor of yarn"},
		{"qwen2-yarn", "rope_scaling", `{"type":"yarn","factor":-4,"original_max_position_embeddings":32768}`, "factor: got -4"},
		{"qwen3", "head_dim", "0", "head_dim: got 0"},
		{"qwen3", "head_dim", "70000", "head_dim: got 70000, want at most"},
		{"qwen3", "num_experts", "4", "num_local_experts or num_experts: got 4, want none"},
		{"qwen3", "partial_rotary_factor", "0.5", "partial_rotary_factor: got 0.5, want 1"},
		{"qwen3-moe", "mlp_only_layers", "[0]", "mlp_only_layers: got 1 layers, want none"},
		{"qwen3-moe", "decoder_sparse_step", "2", "decoder_sparse_step: got 2, want 1"},
		{"qwen3-moe", "num_experts_per_tok", "13", "num_experts_per_tok: got 13, want 1 to 12"},
		{"qwen3-moe", "num_experts", "1000000000", "number of experts: got 1000000000"},
		{"qwen3-moe", "moe_intermediate_size", "-8", "moe_intermediate_size: got -8"},
		{"mixtral", "num_local_experts", "5", "gate.weight: shape: got [4 48], want [5 48] by config.json"},
		{"mixtral", "num_key_value_heads", "4", "k_proj.weight: shape: got [24 48], want [48 48]"},
		{"mistral", "rope_scaling", `{"rope_type":"longrope","factor":2.0}`, `rope_type: got "longrope"`},
		{"mistral", "num_hidden_layers", "2147483647", "missing tensors: got none of model.layers.2."},
		{"mistral", "num_hidden_layers", "-1", "num_hidden_layers: got -1"},
		{"mistral", "num_hidden_layers", "9223372036854775808", "num_hidden_layers"},
		{"llama3", "rope_theta", "1e400", "config.json"},
		{"llama3", "rms_norm_eps", "0", "rms_norm_eps: got 0"},
		{"phi3", "original_max_position_embeddings", "null", "original_max_position_embeddings: got none"},
		{"phi3", "rope_scaling", `{"type":"yarn","factor":2.0}`, `rope_type: got "yarn"`},
		{"phi3-long", "rope_scaling", `{"type":"longrope","long_factor":[1,1,1,1,1,1],"short_factor":[1,1,1,1,1]}`, "short_factor: got 5 numbers, want 6"},
		{"phi3-long", "rope_scaling", `{"type":"longrope","long_factor":[1,1,1,1,1,0],"short_factor":[1,1,1,1,1,1]}`, "long_factor: got 0, want numbers above 0"},
		{"phi3-long", "rope_scaling", `{"long_factor":[1,1,1,1,1,1]}`, "want none without longrope scaling"},
		{"phi3-long", "partial_rotary_factor", "1.5", "partial_rotary_factor: got 1.5"},
		{"phi3", "architectures", `["Phi3ForCausalLM","LlamaForCausalLM"]`, "want exactly one"},
		{"phi3", "architectures", `[]`, "want exactly one"},
	} {
		t.Run(c.model+" "+c.field+" "+c.value, func(t *testing.T) {
			fsys := loadFixture(t, c.model)
			var config map[string]json.RawMessage
			if err := json.Unmarshal(fsys["config.json"].Data, &config); err != nil {
				t.Fatal(err)
			}
			config[c.field] = json.RawMessage(c.value)
			body, err := json.Marshal(config)
			if err != nil {
				t.Fatal(err)
			}
			fsys["config.json"] = &fstest.MapFile{Data: body}
			refused(t, fsys, c.want)
		})
	}
}

func TestAnArchitectureWithoutAMappingIsNamed(t *testing.T) {
	var unknown *UnknownArchitectureError
	_, err := Open(fstest.MapFS{"config.json": {Data: []byte(`{"architectures":["MambaForCausalLM"],"hidden_size":-1}`)}})
	if !errors.As(err, &unknown) || unknown.Name != "MambaForCausalLM" {
		t.Errorf("got %v, want MambaForCausalLM named", err)
	}
}
