package mlx

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// sanitize is what mlx-lm's model of one type does to a checkpoint's tensors
// before it loads them: the sanitize method of mlx_lm/models/<type>.py.
type sanitize struct {
	dropsTied   bool              // lm_head.weight goes where tie_word_embeddings is true
	tiedByFault bool              // … which it is when config.json does not say
	dropsRotary bool              // self_attn.rotary_emb.inv_freq goes
	experts     string            // key of config.json that counts the experts, "" for a model without
	block       string            // what stands before "experts.N." and "switch_mlp."
	projections map[string]string // stacked name → name of an expert's matrix
}

var sameProjections = map[string]string{"gate_proj": "gate_proj", "down_proj": "down_proj", "up_proj": "up_proj"}

// sanitizers are the model types whose changes are known, by config.json's model_type.
var sanitizers = map[string]sanitize{
	"llama":       {dropsTied: true, tiedByFault: true, dropsRotary: true},
	"mistral":     {dropsTied: true, tiedByFault: true, dropsRotary: true},
	"qwen2":       {dropsTied: true, tiedByFault: true, dropsRotary: true},
	"qwen3":       {dropsTied: true},
	"gemma":       {},
	"gemma2":      {},
	"gemma3_text": {},
	"phi3":        {},
	"mixtral": {dropsTied: true, experts: "num_local_experts", block: "block_sparse_moe.",
		projections: map[string]string{"gate_proj": "w1", "down_proj": "w2", "up_proj": "w3"}},
	"qwen2_moe": {dropsTied: true, experts: "num_experts", block: "mlp.", projections: sameProjections},
	"qwen3_moe": {dropsTied: true, experts: "num_experts", block: "mlp.", projections: sameProjections},
}

// sanitizer finds the rules of a configuration's model type.
func sanitizer(config map[string]any) (s sanitize, modelType string, known bool) {
	modelType, _ = config["model_type"].(string)
	s, known = sanitizers[modelType]
	return s, modelType, known
}

// drops tells whether a source tensor is not in the product, and why.
func (s sanitize) drops(name string, config map[string]any) (why string, ok bool) {
	tied, said := config["tie_word_embeddings"].(bool)
	switch {
	case s.dropsRotary && strings.HasSuffix(name, "self_attn.rotary_emb.inv_freq"):
		return "computed anew by MLX", true
	case name == "lm_head.weight" && s.dropsTied && said && tied:
		return "config.json ties it to the embedding", true
	case name == "lm_head.weight" && s.dropsTied && s.tiedByFault && !said:
		return "mlx-lm takes a model as tied whose config.json does not say", true
	}
	return "", false
}

// sources names the source's tensors that a tensor is made of: itself, or the
// experts that are stacked along a new first dimension.
func (s sanitize) sources(name string, config map[string]any) ([]string, error) {
	before, rest, ok := strings.Cut(name, s.block+"switch_mlp.")
	if s.experts == "" || !ok {
		return []string{name}, nil
	}
	projection, suffix, _ := strings.Cut(rest, ".")
	own, ok := s.projections[projection]
	if !ok {
		return []string{name}, nil
	}
	text, _ := config[s.experts].(json.Number)
	n, err := strconv.ParseUint(text.String(), 10, 16)
	if err != nil || n == 0 {
		return nil, fmt.Errorf("%s is %.40v, want a number of experts", s.experts, config[s.experts])
	}
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s%sexperts.%d.%s.%s", before, s.block, i, own, suffix)
	}
	return names, nil
}
