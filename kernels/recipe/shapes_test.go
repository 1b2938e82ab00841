package recipe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// shape is a model as llama-quantize sees it: rows are few, because only their
// length counts.
type shape struct {
	name, arch string
	layers     int
	width      uint64 // weights per row
	heads      [2]uint32
	experts    uint32
	kvs        []gguf.KV // further keys, without the architecture's name before them
	outside    []string  // tensors outside the layers
	inside     []string  // tensors of each layer
}

// Tensors are written as name:dims, dims being "1" for a vector of the width,
// "2" for a matrix, "3" for experts, or numbers. Of the layer's tensors, @ keeps to a range of layers.
const (
	attention = "attn_norm.weight:1 attn_q.weight:2 attn_k.weight:2 attn_v.weight:2 attn_output.weight:2"
	dense     = "ffn_norm.weight:1 ffn_gate.weight:2 ffn_up.weight:2 ffn_down.weight:2"
	mixed     = "ffn_norm.weight:1 ffn_gate_inp.weight:2 ffn_gate_exps.weight:3 ffn_up_exps.weight:3 ffn_down_exps.weight:3"
	untied    = "token_embd.weight:2 output_norm.weight:1 output.weight:2"
	tied      = "token_embd.weight:2 output_norm.weight:1"
)

func words(s ...string) []string { return strings.Fields(strings.Join(s, " ")) }

var shapes = []shape{
	{name: "llama-52-untied", arch: "llama", layers: 52, width: 256, heads: [2]uint32{8, 8}, outside: words(untied), inside: words(attention, dense)},
	{name: "llama-16-tied-grouped4", arch: "llama", layers: 16, width: 512, heads: [2]uint32{32, 8}, outside: words(tied, "rope_freqs.weight:1"), inside: words(attention, dense)},
	{name: "llama-80-grouped8", arch: "llama", layers: 80, width: 256, heads: [2]uint32{64, 8}, outside: words(untied), inside: words(attention, dense)},
	{name: "llama-80-ungrouped", arch: "llama", layers: 80, width: 256, heads: [2]uint32{8, 8}, outside: words(untied), inside: words(attention, dense)},
	{name: "llama-32-8experts", arch: "llama", layers: 32, width: 256, heads: [2]uint32{32, 8}, experts: 8, outside: words(untied), inside: words(attention, mixed)},
	{name: "llama-3-small-288", arch: "llama", layers: 3, width: 288, heads: [2]uint32{4, 2}, outside: words(untied), inside: words(attention, dense)},
	{name: "llama-9-tied-odd-48", arch: "llama", layers: 9, width: 48, heads: [2]uint32{4, 4}, outside: words(tied), inside: words(attention, "ffn_norm.weight:1 ffn_gate.weight:2 ffn_up.weight:2 ffn_down.weight:768x2 attn_q.bias:1")},
	{name: "falcon-32", arch: "falcon", layers: 32, width: 256, heads: [2]uint32{8, 1},
		kvs:     []gguf.KV{{Key: "attention.layer_norm_epsilon", Value: gguf.Float32(1e-5)}},
		outside: words(untied, "output_norm.bias:1"), inside: words("attn_norm.weight:1 attn_qkv.weight:2 attn_output.weight:2 ffn_up.weight:2 ffn_down.weight:2")},
	{name: "qwen2-80-biases", arch: "qwen2", layers: 80, width: 256, heads: [2]uint32{64, 8}, outside: words(untied), inside: words(attention, dense, "attn_q.bias:1 attn_k.bias:1 attn_v.bias:1")},
	{name: "qwen3moe-12-128experts", arch: "qwen3moe", layers: 12, width: 256, heads: [2]uint32{32, 4}, experts: 128,
		kvs:     []gguf.KV{{Key: "expert_feed_forward_length", Value: gguf.Uint32(256)}},
		outside: words(untied), inside: words(attention, mixed, "attn_q_norm.weight:1 attn_k_norm.weight:1")},
	{name: "gemma2-26-tied", arch: "gemma2", layers: 26, width: 256, heads: [2]uint32{8, 4}, outside: words(tied), inside: words(attention, dense, "post_attention_norm.weight:1 post_ffw_norm.weight:1"),
		kvs: []gguf.KV{{Key: "attention.sliding_window", Value: gguf.Uint32(4096)}}},
	{name: "phi3-32-fused", arch: "phi3", layers: 32, width: 256, heads: [2]uint32{32, 32}, outside: words(untied), inside: words("attn_norm.weight:1 attn_qkv.weight:2 attn_output.weight:2 ffn_norm.weight:1 ffn_up.weight:2 ffn_down.weight:2"),
		kvs: []gguf.KV{{Key: "rope.dimension_count", Value: gguf.Uint32(96)}, {Key: "rope.scaling.original_context_length", Value: gguf.Uint32(4096)}}},
	{name: "deepseek2-9-latent", arch: "deepseek2", layers: 9, width: 512, heads: [2]uint32{16, 1}, experts: 64, outside: words(untied),
		inside: words("attn_norm.weight:1 attn_q.weight:2 attn_kv_a_mqa.weight:2 attn_kv_a_norm.weight:1 attn_kv_b.weight:2 attn_k_b.weight:3 attn_v_b.weight:3 attn_output.weight:2",
			"ffn_norm.weight:1 ffn_gate.weight:2@0-0 ffn_up.weight:2@0-0 ffn_down.weight:2@0-0",
			"ffn_gate_inp.weight:2@1-8 ffn_gate_exps.weight:3@1-8 ffn_up_exps.weight:3@1-8 ffn_down_exps.weight:3@1-8 ffn_gate_shexp.weight:2@1-8 ffn_up_shexp.weight:2@1-8 ffn_down_shexp.weight:2@1-8"),
		kvs: []gguf.KV{
			{Key: "leading_dense_block_count", Value: gguf.Uint32(1)}, {Key: "attention.q_lora_rank", Value: gguf.Uint32(1536)}, {Key: "attention.kv_lora_rank", Value: gguf.Uint32(512)},
			{Key: "attention.key_length_mla", Value: gguf.Uint32(192)}, {Key: "attention.value_length_mla", Value: gguf.Uint32(128)},
			{Key: "expert_feed_forward_length", Value: gguf.Uint32(256)}, {Key: "expert_shared_count", Value: gguf.Uint32(2)},
			{Key: "expert_weights_scale", Value: gguf.Float32(1)}, {Key: "rope.dimension_count", Value: gguf.Uint32(64)},
			{Key: "rope.scaling.yarn_log_multiplier", Value: gguf.Float32(0.0707)},
		}},
	{name: "bert-12-positions", arch: "bert", layers: 12, width: 384, heads: [2]uint32{12, 12},
		outside: words("token_embd.weight:2 token_types.weight:2 position_embd.weight:2 token_embd_norm.weight:1 token_embd_norm.bias:1"),
		inside:  words("attn_q.weight:2 attn_k.weight:2 attn_v.weight:2 attn_output.weight:2 attn_output_norm.weight:1 ffn_up.weight:2 ffn_down.weight:2 layer_output_norm.weight:1"),
		kvs:     []gguf.KV{{Key: "attention.layer_norm_epsilon", Value: gguf.Float32(1e-5)}, {Key: "attention.causal", Value: gguf.Bool(false)}, {Key: "pooling_type", Value: gguf.Uint32(1)}}},
	{name: "mamba-8", arch: "mamba", layers: 8, width: 256, outside: words(tied),
		inside: words("attn_norm.weight:1 ssm_in.weight:2 ssm_conv1d.weight:2 ssm_x.weight:2 ssm_dt.weight:2 ssm_a:2 ssm_d:1 ssm_out.weight:2"),
		kvs: []gguf.KV{{Key: "ssm.conv_kernel", Value: gguf.Uint32(4)}, {Key: "ssm.inner_size", Value: gguf.Uint32(512)}, {Key: "ssm.state_size", Value: gguf.Uint32(16)},
			{Key: "ssm.time_step_rank", Value: gguf.Uint32(16)}}},
	{name: "gemma3n-10-small-parts", arch: "gemma3n", layers: 10, width: 256, heads: [2]uint32{8, 2},
		outside: words(tied, "per_layer_token_embd.weight:2 per_layer_model_proj.weight:2 per_layer_proj_norm.weight:1 altup_proj.weight:3 altup_unembd_proj.weight:3"),
		inside:  words(attention, dense, "altup_router.weight:2 laurel_l.weight:2 laurel_r.weight:2 per_layer_inp_gate.weight:2 per_layer_proj.weight:2"),
		kvs:     []gguf.KV{{Key: "attention.sliding_window", Value: gguf.Uint32(512)}, {Key: "attention.sliding_window_pattern", Value: gguf.Bools([]bool{true, true, true, true, false, true, true, true, true, false})}, {Key: "attention.shared_kv_layers", Value: gguf.Uint32(2)}, {Key: "embedding_length_per_layer_input", Value: gguf.Uint32(256)}, {Key: "altup.num_inputs", Value: gguf.Uint32(4)}}},
	{name: "glm5-next-8-kept-parts", arch: "glm5-next", layers: 8, width: 256, heads: [2]uint32{16, 1}, experts: 64, outside: words(untied, "hc_head.weight:2"),
		inside: words("attn_norm.weight:1 attn_q_a.weight:2 attn_q_b.weight:2 attn_kv_a_mqa.weight:2 attn_kv_b.weight:2 attn_k_b.weight:3 attn_v_b.weight:3 attn_output.weight:2",
			"indexer.attn_q_b.weight:2 indexer.attn_k.weight:2 indexer.proj.weight:2 indexer.k_proj.weight:2 ssm_f_a.weight:2 ssm_beta.weight:2 hc_attn.weight:2 nextn.eh_proj.weight:2@7-7",
			"ffn_norm.weight:1 ffn_gate_inp.weight:2 ffn_gate_exps.weight:3 ffn_up_exps.weight:3 ffn_down_exps.weight:3"),
		kvs: []gguf.KV{
			{Key: "attention.key_length_mla", Value: gguf.Uint32(192)}, {Key: "attention.value_length_mla", Value: gguf.Uint32(128)},
			{Key: "attention.q_lora_rank", Value: gguf.Uint32(256)}, {Key: "attention.kv_lora_rank", Value: gguf.Uint32(256)},
			{Key: "ssm.conv_kernel", Value: gguf.Uint32(4)}, {Key: "kda.head_dim", Value: gguf.Uint32(64)},
			{Key: "expert_feed_forward_length", Value: gguf.Uint32(256)}, {Key: "expert_shared_count", Value: gguf.Uint32(1)},
			{Key: "attention.indexer.head_count", Value: gguf.Uint32(8)}, {Key: "attention.indexer.key_length", Value: gguf.Uint32(64)},
			{Key: "attention.indexer.top_k", Value: gguf.Uint32(64)}, {Key: "attention.indexer.kpool", Value: gguf.Uint32(4)},
			{Key: "hyper_connection.count", Value: gguf.Uint32(4)}, {Key: "hyper_connection.sinkhorn_iterations", Value: gguf.Uint32(4)},
			{Key: "hyper_connection.epsilon", Value: gguf.Float32(1e-5)}, {Key: "rope.dimension_count", Value: gguf.Uint32(64)},
		}},
	{name: "bailingmoe3-6-latent", arch: "bailingmoe3", layers: 6, width: 256, heads: [2]uint32{16, 1}, experts: 128, outside: words(untied),
		inside: words("attn_norm.weight:1 attn_q.weight:2 attn_kv_a_mqa.weight:2 attn_kv_b.weight:2 attn_k_b.weight:3 attn_v_b.weight:3 attn_output.weight:2",
			"ffn_norm.weight:1 ffn_gate_inp.weight:2 ffn_gate_exps.weight:3 ffn_up_exps.weight:3 ffn_down_exps.weight:3"),
		kvs: []gguf.KV{
			{Key: "attention.key_length_mla", Value: gguf.Uint32(192)}, {Key: "attention.value_length_mla", Value: gguf.Uint32(128)},
			{Key: "attention.kv_lora_rank", Value: gguf.Uint32(256)}, {Key: "ssm.conv_kernel", Value: gguf.Uint32(4)}, {Key: "kda.head_dim", Value: gguf.Uint32(64)},
			{Key: "kda.gate_lower_bound", Value: gguf.Float32(-1)}, {Key: "expert_feed_forward_length", Value: gguf.Uint32(256)}, {Key: "expert_shared_count", Value: gguf.Uint32(1)},
			{Key: "leading_dense_block_count", Value: gguf.Uint32(1)}, {Key: "expert_gating_func", Value: gguf.Uint32(2)}, {Key: "rope.dimension_count", Value: gguf.Uint32(64)},
		}},
}

// file gives the keys and tensors of a shape; the matrices are BF16, as after a conversion.
func (s shape) file() ([]gguf.KV, []gguf.TensorInfo) {
	kvs := []gguf.KV{
		{Key: "general.architecture", Value: gguf.String(s.arch)},
		{Key: s.arch + ".context_length", Value: gguf.Uint32(4096)},
		{Key: s.arch + ".embedding_length", Value: gguf.Uint32(uint32(s.width))},
		{Key: s.arch + ".feed_forward_length", Value: gguf.Uint32(uint32(s.width))},
		{Key: s.arch + ".block_count", Value: gguf.Uint32(uint32(s.layers))},
		{Key: s.arch + ".vocab_size", Value: gguf.Uint32(256)},
	}
	if !slices.ContainsFunc(s.kvs, func(kv gguf.KV) bool { return kv.Key == "attention.layer_norm_epsilon" }) {
		kvs = append(kvs, gguf.KV{Key: s.arch + ".attention.layer_norm_rms_epsilon", Value: gguf.Float32(1e-5)})
	}
	if s.heads[0] > 0 {
		kvs = append(kvs, gguf.KV{Key: s.arch + ".attention.head_count", Value: gguf.Uint32(s.heads[0])},
			gguf.KV{Key: s.arch + ".attention.head_count_kv", Value: gguf.Uint32(s.heads[1])})
	}
	if s.experts > 0 {
		kvs = append(kvs, gguf.KV{Key: s.arch + ".expert_count", Value: gguf.Uint32(s.experts)}, gguf.KV{Key: s.arch + ".expert_used_count", Value: gguf.Uint32(2)})
	}
	for _, kv := range s.kvs {
		kvs = append(kvs, gguf.KV{Key: s.arch + "." + kv.Key, Value: kv.Value})
	}
	var tensors []gguf.TensorInfo
	for _, t := range s.outside {
		tensors = append(tensors, s.tensor("", t))
	}
	for n := range s.layers {
		for _, t := range s.inside {
			t, layers, some := strings.Cut(t, "@")
			if from, to := 0, 0; some {
				if _, err := fmt.Sscanf(layers, "%d-%d", &from, &to); err != nil {
					panic(err)
				}
				if n < from || n > to {
					continue
				}
			}
			tensors = append(tensors, s.tensor(fmt.Sprintf("blk.%d.", n), t))
		}
	}
	return kvs, tensors
}

func (s shape) tensor(prefix, what string) gguf.TensorInfo {
	name, dims, _ := strings.Cut(what, ":")
	t := gguf.TensorInfo{Name: prefix + name, Type: gguf.BF16}
	switch dims {
	case "1":
		t.Dims, t.Type = []uint64{s.width}, gguf.F32
	case "2":
		t.Dims = []uint64{s.width, 2}
	case "3":
		t.Dims = []uint64{s.width, 2, 2} // experts are two as well: their number is a key
	default:
		for _, d := range strings.Split(dims, "x") {
			var n uint64
			if _, err := fmt.Sscan(d, &n); err != nil {
				panic(err)
			}
			t.Dims = append(t.Dims, n)
		}
	}
	return t
}
