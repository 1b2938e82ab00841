package convert

// The converter's order of keys for architectures whose keys its general rule writes.
var baseKeys = []string{
	"block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count", "attention.head_count_kv",
	"rope.scaling.type", "rope.scaling.factor", "rope.scaling.original_context_length", "rope.scaling.yarn_ext_factor",
	"rope.scaling.yarn_attn_factor", "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow",
	"rope.freq_base", "rope.freq_base_swa", "attention.layer_norm_rms_epsilon", "expert_count", "expert_used_count",
	"attention.key_length", "attention.value_length", "general.file_type",
}

func keys(more ...string) []string {
	return append(append([]string(nil), baseKeys...), more...)
}

// Llama and its kin: conversion/llama.py of llama.cpp.
var (
	llama = Architecture{
		HF: "LlamaForCausalLM", GGUF: "llama", Activation: "silu", Scaling: []string{"linear", "yarn", "llama3"},
		Mappings: join(outer, layerNorms, permuted(attention), feedForward, permuted(attentionBiases), feedForwardBiases),
		Keys:     keys("vocab_size", "rope.dimension_count"),
		Unstated: map[string]any{"rope_theta": 10000.0, "rms_norm_eps": 1e-6}, HeadDimStated: true,
	}
	mistral = Architecture{
		HF: "MistralForCausalLM", GGUF: "llama", Activation: "silu", Scaling: []string{"linear", "yarn", "llama3"},
		Mappings: join(outer, layerNorms, permuted(attention), feedForward),
		Keys:     keys("vocab_size", "rope.dimension_count"),
		Unstated: map[string]any{"num_key_value_heads": 8, "rope_theta": 10000.0, "rms_norm_eps": 1e-6},
	}
	mixtral = Architecture{
		HF: "MixtralForCausalLM", GGUF: "llama", Activation: "silu", Scaling: []string{"linear", "yarn", "llama3"},
		Mappings: join(outer, layerNorms, permuted(attention), []Mapping{
			{"model.layers.{n}.block_sparse_moe.gate.weight", "blk.{n}.ffn_gate_inp.weight", Keep, []Dim{Experts, Hidden}, false},
			{"model.layers.{n}.block_sparse_moe.experts.{e}.w1.weight", "blk.{n}.ffn_gate_exps.weight", Keep, []Dim{Inner, Hidden}, false},
			{"model.layers.{n}.block_sparse_moe.experts.{e}.w2.weight", "blk.{n}.ffn_down_exps.weight", Keep, []Dim{Hidden, Inner}, false},
			{"model.layers.{n}.block_sparse_moe.experts.{e}.w3.weight", "blk.{n}.ffn_up_exps.weight", Keep, []Dim{Inner, Hidden}, false},
		}),
		Keys:     keys("vocab_size", "rope.dimension_count"),
		Unstated: map[string]any{"num_key_value_heads": 8, "rope_theta": 1e6, "rms_norm_eps": 1e-5, "num_local_experts": 8, "num_experts_per_tok": 2},
	}
)

// Qwen: conversion/qwen.py.
var (
	qwen2 = Architecture{
		HF: "Qwen2ForCausalLM", GGUF: "qwen2", Activation: "silu", Scaling: []string{"linear", "yarn"},
		Mappings: join(outer, layerNorms, attention, feedForward, required(attentionBiases[:3])),
		Keys:     keys(),
		Unstated: map[string]any{"num_key_value_heads": 32, "rope_theta": 10000.0, "rms_norm_eps": 1e-6},
	}
	qwen3 = Architecture{
		HF: "Qwen3ForCausalLM", GGUF: "qwen3", Activation: "silu", Scaling: []string{"linear", "yarn"},
		Mappings: join(outer, layerNorms, attention, headNorms, feedForward, attentionBiases),
		Keys:     keys(),
		Unstated: map[string]any{"num_key_value_heads": 32, "head_dim": 128, "rope_theta": 10000.0, "rms_norm_eps": 1e-6},
	}
	qwen3MoE = Architecture{
		HF: "Qwen3MoeForCausalLM", GGUF: "qwen3moe", Activation: "silu", Scaling: []string{"linear", "yarn"},
		Mappings: join(outer, layerNorms, attention, headNorms, attentionBiases, []Mapping{
			{"model.layers.{n}.mlp.gate.weight", "blk.{n}.ffn_gate_inp.weight", Keep, []Dim{Experts, Hidden}, false},
			{"model.layers.{n}.mlp.experts.{e}.down_proj.weight", "blk.{n}.ffn_down_exps.weight", Keep, []Dim{Hidden, ExpertInner}, false},
			{"model.layers.{n}.mlp.experts.{e}.gate_proj.weight", "blk.{n}.ffn_gate_exps.weight", Keep, []Dim{ExpertInner, Hidden}, false},
			{"model.layers.{n}.mlp.experts.{e}.up_proj.weight", "blk.{n}.ffn_up_exps.weight", Keep, []Dim{ExpertInner, Hidden}, false},
		}),
		Keys: keys("expert_feed_forward_length"),
		Unstated: map[string]any{"num_key_value_heads": 4, "rope_theta": 10000.0, "rms_norm_eps": 1e-6, "num_experts": 128,
			"num_experts_per_tok": 8, "moe_intermediate_size": 768},
	}
)

// Gemma: conversion/gemma.py.
var (
	gemmaNorms = []Mapping{
		{"model.layers.{n}.input_layernorm.weight", "blk.{n}.attn_norm.weight", Keep, []Dim{Hidden}, false},
		{"model.layers.{n}.post_attention_layernorm.weight", "blk.{n}.post_attention_norm.weight", Keep, []Dim{Hidden}, false},
		{"model.layers.{n}.pre_feedforward_layernorm.weight", "blk.{n}.ffn_norm.weight", Keep, []Dim{Hidden}, false},
		{"model.layers.{n}.post_feedforward_layernorm.weight", "blk.{n}.post_ffw_norm.weight", Keep, []Dim{Hidden}, false},
	}
	gemma2 = Architecture{
		HF: "Gemma2ForCausalLM", GGUF: "gemma2", Activation: "gelu_pytorch_tanh",
		Mappings: shifted(join(outer, gemmaNorms, attention, feedForward)),
		Keys: []string{
			"context_length", "embedding_length", "block_count", "feed_forward_length", "attention.head_count", "attention.head_count_kv",
			"attention.layer_norm_rms_epsilon", "attention.key_length", "attention.value_length", "general.file_type",
			"attn_logit_softcapping", "final_logit_softcapping", "attention.sliding_window",
		},
		Unstated: map[string]any{"num_key_value_heads": 4, "head_dim": 256, "rms_norm_eps": 1e-6, "attn_logit_softcapping": 50.0,
			"final_logit_softcapping": 30.0, "sliding_window": 4096},
	}
	gemma3 = Architecture{
		HF: "Gemma3ForCausalLM", GGUF: "gemma3", Activation: "gelu_pytorch_tanh", Scaling: []string{"linear"},
		Mappings: shifted(join(outer, gemmaNorms, attention, headNorms, feedForward)),
		Keys:     keys("final_logit_softcapping", "attention.sliding_window"),
		Unstated: map[string]any{"num_key_value_heads": 4, "head_dim": 256, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "rope_local_base_freq": 10000.0,
			"sliding_window": 4096},
	}
	// gemma3Vision is the language model of the larger ones, whose checkpoints hold an image encoder too.
	gemma3Vision = Architecture{
		HF: "Gemma3ForConditionalGeneration", GGUF: "gemma3", Activation: gemma3.Activation, Scaling: gemma3.Scaling,
		Mappings: gemma3.Mappings, Keys: gemma3.Keys,
		Parts: []string{"vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector."},
		Unstated: map[string]any{"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208, "max_position_embeddings": 131072,
			"rms_norm_eps": 1e-6, "rope_theta": 1e6, "rope_local_base_freq": 10000.0, "sliding_window": 4096},
	}
)

// Phi-3 and Phi-4-mini: conversion/phi.py.
var phi3 = Architecture{
	HF: "Phi3ForCausalLM", GGUF: "phi3", Activation: "silu", Scaling: []string{"longrope", "su"},
	Mappings: join(outer, layerNorms, []Mapping{
		{"model.layers.{n}.self_attn.qkv_proj.weight", "blk.{n}.attn_qkv.weight", Keep, []Dim{FusedDim, Hidden}, false},
		attentionOutput,
		{"model.layers.{n}.mlp.gate_up_proj.weight", "blk.{n}.ffn_up.weight", Keep, []Dim{GateUp, Hidden}, false},
		feedForwardDown,
	}),
	Early: []string{"rope.scaling.attn_factor"},
	Keys: []string{
		"context_length", "rope.scaling.original_context_length", "embedding_length", "feed_forward_length", "block_count", "attention.head_count",
		"attention.head_count_kv", "attention.layer_norm_rms_epsilon", "rope.dimension_count", "rope.freq_base", "general.file_type",
		"attention.sliding_window",
	},
	Unstated: map[string]any{"rms_norm_eps": 1e-5, "rope_theta": 10000.0, "original_max_position_embeddings": 4096},
}
