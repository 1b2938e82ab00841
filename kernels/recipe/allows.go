package recipe

import (
	"strings"
)

// llama-quantize leaves tensors alone whose name holds one of these.
var keptParts = []string{
	"_norm.weight",
	"ffn_gate_inp.weight", "ffn_gate_tid2eid.weight", // routing of experts
	"altup", "laurel", "per_layer_model_proj", // small parts of Gemma 3n
	"ssm_conv1d", "shortconv.conv.weight", // convolutions of Mamba and its kin
	"indexer.k_proj.weight", "indexer.q_proj.weight",
	"time_mix_first.weight", "time_mix_w0.weight", "time_mix_w1.weight", "time_mix_w2.weight", // RWKV's small matrices
	"time_mix_v0.weight", "time_mix_v1.weight", "time_mix_v2.weight",
	"time_mix_a0.weight", "time_mix_a1.weight", "time_mix_a2.weight",
	"time_mix_g1.weight", "time_mix_g2.weight",
	"time_mix_decay_w1.weight", "time_mix_decay_w2.weight", "time_mix_lerp_fused.weight",
	"attn_rel_b.weight",                                                                                   // relative positions of T5
	".position_embd", "sam.pos_embd", "sam.neck.", "sam.net_", ".rel_pos", ".patch_embd", ".patch_merger", // vision
	"a.rvq.codebook", "mm.a.code_embd", // audio
}

// keptNames are left alone under their whole name.
var keptNames = map[string]bool{"position_embd.weight": true, "token_types.weight": true}

// keptOf adds what is left alone in one architecture only.
var keptOf = map[string][]string{
	"glm5-next": {
		"hc_", "indexer.attn_q_b", "indexer.attn_k", "indexer.proj", "indexer_compressor_gate", "indexer_compressor_ape",
		"ssm_f_a.weight", "ssm_f_b.weight", "ssm_g_a.weight", "ssm_g_b.weight", "ssm_beta.weight",
		"attn_kv_a_mqa.weight", "attn_k_b.weight", "attn_v_b.weight",
	},
}

// Allows tells whether llama-quantize gives a tensor a new type at all: matrices
// that are weights, apart from norms and a list of small or delicate ones.
// Dims are in ggml order; trailing ones do not count.
func Allows(architecture, name string, dims []uint64) bool {
	// The reference compares the last place of "weight" with length − 6, so that a
	// name of five letters passes too: both are then −1.
	if matrixDims(dims) < 2 || strings.LastIndex(name, "weight") != len(name)-len("weight") || keptNames[name] {
		return false
	}
	return !holdsAny(name, keptParts) && !holdsAny(name, keptOf[architecture])
}

func holdsAny(name string, parts []string) bool {
	for _, p := range parts {
		if strings.Contains(name, p) {
			return true
		}
	}
	return false
}

// matrixDims is the number of dimensions without trailing ones.
func matrixDims(dims []uint64) int {
	n := len(dims)
	for n > 0 && dims[n-1] == 1 {
		n--
	}
	return n
}
