// Package convert turns a publisher's Llama snapshot (safetensors, config and
// SentencePiece tokenizer) into GGUF, and a GGUF into Q8_0, with the bytes that
// llama.cpp's convert_hf_to_gguf.py and llama-quantize give. What those tools
// take from folder names and model cards (general.name and the like) is an
// explicit choice here: see [Options].
//
// The rules are also data for the proof of derivation: [Mapping] and [Model]
// say what every tensor and key of a product must be.
package convert

import (
	"strconv"
	"strings"
)

// Transform says what happens to the rows of a tensor on its way into GGUF.
type Transform int

const (
	Keep     Transform = iota // rows as they stand
	PermuteQ                  // rows of each query head interleaved: see [HeadOrder]
	PermuteK                  // the same with the key-value heads
	Drop                      // not a weight; it does not reach the GGUF
)

// Dim names a dimension of the architecture; see [Config.dim].
type Dim int

const (
	Vocab Dim = iota
	Hidden
	Inner    // feed-forward length
	QueryDim // query heads · head dimension
	KeyDim   // key-value heads · head dimension
	HalfHead // half of the head dimension
)

// Mapping ties one tensor name of a Llama checkpoint to its GGUF name. "{n}" in
// both is the layer's number. Shape is in safetensors order, slowest first.
type Mapping struct {
	HF, GGUF  string
	Transform Transform
	Shape     []Dim
	Optional  bool
}

// Mappings is the whole naming of LlamaForCausalLM.
var Mappings = []Mapping{
	{"model.embed_tokens.weight", "token_embd.weight", Keep, []Dim{Vocab, Hidden}, false},
	{"model.norm.weight", "output_norm.weight", Keep, []Dim{Hidden}, false},
	{"lm_head.weight", "output.weight", Keep, []Dim{Vocab, Hidden}, true},
	{"model.layers.{n}.input_layernorm.weight", "blk.{n}.attn_norm.weight", Keep, []Dim{Hidden}, false},
	{"model.layers.{n}.post_attention_layernorm.weight", "blk.{n}.ffn_norm.weight", Keep, []Dim{Hidden}, false},
	{"model.layers.{n}.self_attn.q_proj.weight", "blk.{n}.attn_q.weight", PermuteQ, []Dim{QueryDim, Hidden}, false},
	{"model.layers.{n}.self_attn.k_proj.weight", "blk.{n}.attn_k.weight", PermuteK, []Dim{KeyDim, Hidden}, false},
	{"model.layers.{n}.self_attn.v_proj.weight", "blk.{n}.attn_v.weight", Keep, []Dim{KeyDim, Hidden}, false},
	{"model.layers.{n}.self_attn.o_proj.weight", "blk.{n}.attn_output.weight", Keep, []Dim{Hidden, QueryDim}, false},
	{"model.layers.{n}.mlp.gate_proj.weight", "blk.{n}.ffn_gate.weight", Keep, []Dim{Inner, Hidden}, false},
	{"model.layers.{n}.mlp.up_proj.weight", "blk.{n}.ffn_up.weight", Keep, []Dim{Inner, Hidden}, false},
	{"model.layers.{n}.mlp.down_proj.weight", "blk.{n}.ffn_down.weight", Keep, []Dim{Hidden, Inner}, false},
	{"model.layers.{n}.self_attn.q_proj.bias", "blk.{n}.attn_q.bias", PermuteQ, []Dim{QueryDim}, true},
	{"model.layers.{n}.self_attn.k_proj.bias", "blk.{n}.attn_k.bias", PermuteK, []Dim{KeyDim}, true},
	{"model.layers.{n}.self_attn.v_proj.bias", "blk.{n}.attn_v.bias", Keep, []Dim{KeyDim}, true},
	{"model.layers.{n}.self_attn.o_proj.bias", "blk.{n}.attn_output.bias", Keep, []Dim{Hidden}, true},
	{"model.layers.{n}.mlp.gate_proj.bias", "blk.{n}.ffn_gate.bias", Keep, []Dim{Inner}, true},
	{"model.layers.{n}.mlp.up_proj.bias", "blk.{n}.ffn_up.bias", Keep, []Dim{Inner}, true},
	{"model.layers.{n}.mlp.down_proj.bias", "blk.{n}.ffn_down.bias", Keep, []Dim{Hidden}, true},
	{"model.layers.{n}.self_attn.rotary_emb.inv_freq", "", Drop, []Dim{HalfHead}, true},
}

// RopeFreqs is the tensor that llama3 RoPE scaling adds. No checkpoint has it.
const RopeFreqs = "rope_freqs.weight"

// FindHF finds the mapping of a checkpoint's tensor name, and its GGUF name.
func FindHF(name string) (m Mapping, ggufName string, ok bool) {
	pattern, n := splitLayer(name, "model.layers.")
	for _, m := range Mappings {
		if m.HF == pattern {
			return m, strings.Replace(m.GGUF, "{n}", n, 1), true
		}
	}
	return Mapping{}, "", false
}

// FindGGUF finds the mapping of a GGUF tensor name, and its checkpoint name.
func FindGGUF(name string) (m Mapping, hfName string, ok bool) {
	pattern, n := splitLayer(name, "blk.")
	for _, m := range Mappings {
		if m.GGUF == pattern && m.Transform != Drop {
			return m, strings.Replace(m.HF, "{n}", n, 1), true
		}
	}
	return Mapping{}, "", false
}

// splitLayer replaces the layer's number after a prefix by "{n}". A name
// without one, or with a number that is not in its plain form, stays as it is.
func splitLayer(name, prefix string) (pattern, n string) {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return name, ""
	}
	n, tail, ok := strings.Cut(rest, ".")
	if i, err := strconv.ParseUint(n, 10, 31); !ok || err != nil || strconv.FormatUint(i, 10) != n {
		return name, ""
	}
	return prefix + "{n}." + tail, n
}
