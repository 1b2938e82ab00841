package convert

import (
	"fmt"
	"strconv"
	"strings"
)

// Transform says what happens to a tensor on its way into GGUF.
type Transform int

const (
	Keep     Transform = iota // as it stands
	PermuteQ                  // rows of each query head interleaved: see [HeadOrder]
	PermuteK                  // the same with the key-value heads
	AddOne                    // 1 added to every weight, in the arithmetic of the stored type, F32 for BF16
	Drop                      // not a weight of the GGUF
)

// Dim names a dimension of an architecture; see [Config.dim].
type Dim int

const (
	Vocab Dim = iota
	Hidden
	Inner       // feed-forward length
	QueryDim    // query heads · head dimension
	KeyDim      // key-value heads · head dimension
	HeadDim     // head dimension
	HalfHead    // half of the head dimension
	FusedDim    // query, key and value rows in one: QueryDim + 2·KeyDim
	GateUp      // gate and up rows in one: 2·Inner
	Experts     // number of experts
	ExpertInner // feed-forward length of one expert
)

// Mapping ties one tensor name of a checkpoint to its GGUF name. "{n}" is the
// layer's number. Names with the number of an expert, "{e}", are many to one:
// the tensors of all experts are stacked in the order of their numbers, as the
// slowest dimension of the product. Shape is that of a checkpoint's tensor,
// slowest first.
type Mapping struct {
	HF, GGUF  string
	Transform Transform
	Shape     []Dim
	Optional  bool
}

// Stacks tells whether the tensors of all experts make one product.
func (m *Mapping) Stacks() bool { return strings.Contains(m.HF, "{e}") }

// layered tells whether every layer has one.
func (m *Mapping) layered() bool { return strings.Contains(m.HF, "{n}") }

// source is the checkpoint's name for a layer and an expert.
func (m *Mapping) source(layer, expert int64) string {
	return strings.Replace(strings.Replace(m.HF, "{n}", fmt.Sprint(layer), 1), "{e}", fmt.Sprint(expert), 1)
}

// product is the GGUF's name for a layer.
func (m *Mapping) product(layer int64) string {
	return strings.Replace(m.GGUF, "{n}", fmt.Sprint(layer), 1)
}

// splitName replaces the first number that stands between dots by {n} and the
// second by {e}. Numbers that are not in their plain form stay as they are.
func splitName(name string) (pattern string, layer, expert int64) {
	parts := strings.Split(name, ".")
	layer, expert = -1, -1
	for i, part := range parts {
		n, err := strconv.ParseInt(part, 10, 32)
		switch {
		case err != nil || n < 0 || strconv.FormatInt(n, 10) != part || expert >= 0:
		case layer < 0:
			layer, parts[i] = n, "{n}"
		default:
			expert, parts[i] = n, "{e}"
		}
	}
	return strings.Join(parts, "."), layer, expert
}

// RopeFreqs is the tensor that llama3 RoPE scaling adds. No checkpoint has it.
const RopeFreqs = "rope_freqs.weight"

// The tensors that longrope scaling adds, from the lists of config.json.
const (
	RopeLong  = "rope_factors_long.weight"
	RopeShort = "rope_factors_short.weight"
)

// join makes one table of several.
func join(tables ...[]Mapping) []Mapping {
	var all []Mapping
	for _, t := range tables {
		all = append(all, t...)
	}
	return all
}

// The tables that architectures share.
var (
	outer = []Mapping{
		{"model.embed_tokens.weight", "token_embd.weight", Keep, []Dim{Vocab, Hidden}, false},
		{"model.norm.weight", "output_norm.weight", Keep, []Dim{Hidden}, false},
		{"lm_head.weight", "output.weight", Keep, []Dim{Vocab, Hidden}, true},
		{"model.layers.{n}.self_attn.rotary_emb.inv_freq", "", Drop, []Dim{HalfHead}, true},
	}
	layerNorms = []Mapping{
		{"model.layers.{n}.input_layernorm.weight", "blk.{n}.attn_norm.weight", Keep, []Dim{Hidden}, false},
		{"model.layers.{n}.post_attention_layernorm.weight", "blk.{n}.ffn_norm.weight", Keep, []Dim{Hidden}, false},
	}
	attention = []Mapping{
		{"model.layers.{n}.self_attn.q_proj.weight", "blk.{n}.attn_q.weight", Keep, []Dim{QueryDim, Hidden}, false},
		{"model.layers.{n}.self_attn.k_proj.weight", "blk.{n}.attn_k.weight", Keep, []Dim{KeyDim, Hidden}, false},
		{"model.layers.{n}.self_attn.v_proj.weight", "blk.{n}.attn_v.weight", Keep, []Dim{KeyDim, Hidden}, false},
		attentionOutput,
	}
	attentionOutput = Mapping{"model.layers.{n}.self_attn.o_proj.weight", "blk.{n}.attn_output.weight", Keep, []Dim{Hidden, QueryDim}, false}
	attentionBiases = []Mapping{
		{"model.layers.{n}.self_attn.q_proj.bias", "blk.{n}.attn_q.bias", Keep, []Dim{QueryDim}, true},
		{"model.layers.{n}.self_attn.k_proj.bias", "blk.{n}.attn_k.bias", Keep, []Dim{KeyDim}, true},
		{"model.layers.{n}.self_attn.v_proj.bias", "blk.{n}.attn_v.bias", Keep, []Dim{KeyDim}, true},
		{"model.layers.{n}.self_attn.o_proj.bias", "blk.{n}.attn_output.bias", Keep, []Dim{Hidden}, true},
	}
	headNorms = []Mapping{
		{"model.layers.{n}.self_attn.q_norm.weight", "blk.{n}.attn_q_norm.weight", Keep, []Dim{HeadDim}, false},
		{"model.layers.{n}.self_attn.k_norm.weight", "blk.{n}.attn_k_norm.weight", Keep, []Dim{HeadDim}, false},
	}
	feedForward = []Mapping{
		{"model.layers.{n}.mlp.gate_proj.weight", "blk.{n}.ffn_gate.weight", Keep, []Dim{Inner, Hidden}, false},
		{"model.layers.{n}.mlp.up_proj.weight", "blk.{n}.ffn_up.weight", Keep, []Dim{Inner, Hidden}, false},
		feedForwardDown,
	}
	feedForwardDown   = Mapping{"model.layers.{n}.mlp.down_proj.weight", "blk.{n}.ffn_down.weight", Keep, []Dim{Hidden, Inner}, false}
	feedForwardBiases = []Mapping{
		{"model.layers.{n}.mlp.gate_proj.bias", "blk.{n}.ffn_gate.bias", Keep, []Dim{Inner}, true},
		{"model.layers.{n}.mlp.up_proj.bias", "blk.{n}.ffn_up.bias", Keep, []Dim{Inner}, true},
		{"model.layers.{n}.mlp.down_proj.bias", "blk.{n}.ffn_down.bias", Keep, []Dim{Hidden}, true},
	}
)

// permuted gives a table's Q and K rows the order of llama's GGUF.
func permuted(table []Mapping) []Mapping {
	out := append([]Mapping(nil), table...)
	for i := range out {
		switch {
		case strings.Contains(out[i].HF, ".q_proj."):
			out[i].Transform = PermuteQ
		case strings.Contains(out[i].HF, ".k_proj."):
			out[i].Transform = PermuteK
		}
	}
	return out
}

// shifted gives a table's norms the one that their checkpoints leave out, and drops
// the output matrix, which such checkpoints tie to the embedding.
func shifted(table []Mapping) []Mapping {
	out := append([]Mapping(nil), table...)
	for i := range out {
		switch {
		case strings.HasSuffix(out[i].HF, "norm.weight"):
			out[i].Transform = AddOne
		case out[i].HF == "lm_head.weight":
			out[i].Transform, out[i].GGUF = Drop, ""
		}
	}
	return out
}

// required makes a table's tensors ones that must be there.
func required(table []Mapping) []Mapping {
	out := append([]Mapping(nil), table...)
	for i := range out {
		out[i].Optional = false
	}
	return out
}
