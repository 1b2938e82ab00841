package recipe

import "strings"

// category is the part that a tensor plays, as far as recipes tell parts apart.
type category int

const (
	other category = iota
	tokenEmbedding
	output
	attentionQ
	attentionK
	attentionV // also fused Q, K and V, and the fused K and V of latent attention
	attentionOutput
	feedUp
	feedGate
	feedDown
)

// named are the tensors known by their whole name.
var named = map[string]category{
	"output.weight":               output,
	"token_embd.weight":           tokenEmbedding,
	"per_layer_token_embd.weight": tokenEmbedding,
}

// parts are looked for in this order: the first that a name holds counts.
var parts = []struct {
	part string
	is   category
}{
	{"attn_qkv.weight", attentionV},
	{"attn_kv_b.weight", attentionV},
	{"attn_v.weight", attentionV},
	{"attn_k.weight", attentionK},
	{"attn_q.weight", attentionQ},
	{"attn_output.weight", attentionOutput},
	{"ffn_up", feedUp},
	{"ffn_gate", feedGate},
	{"ffn_down", feedDown},
}

func categoryOf(name string) category {
	if c, ok := named[name]; ok {
		return c
	}
	for _, p := range parts {
		if strings.Contains(name, p.part) {
			return p.is
		}
	}
	return other
}
