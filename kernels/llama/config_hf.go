package llama

import (
	"encoding/json"
	"fmt"
	"math"
)

// hfConfig is config.json of a LlamaForCausalLM, in the spelling of
// transformers 4 (rope_theta, rope_scaling) and 5 (rope_parameters).
type hfConfig struct {
	ModelType    string   `json:"model_type"`
	Hidden       int      `json:"hidden_size"`
	FFN          int      `json:"intermediate_size"`
	Layers       int      `json:"num_hidden_layers"`
	Heads        int      `json:"num_attention_heads"`
	KVHeads      *int     `json:"num_key_value_heads"`
	HeadDim      *int     `json:"head_dim"`
	Vocab        int      `json:"vocab_size"`
	Context      *int     `json:"max_position_embeddings"`
	Eps          *float64 `json:"rms_norm_eps"`
	Theta        *float64 `json:"rope_theta"`
	Scaling      *hfRope  `json:"rope_scaling"`
	Parameters   *hfRope  `json:"rope_parameters"`
	Act          *string  `json:"hidden_act"`
	AttnBias     bool     `json:"attention_bias"`
	MLPBias      bool     `json:"mlp_bias"`
	Tied         bool     `json:"tie_word_embeddings"`
	PretrainTP   *int     `json:"pretraining_tp"`
	Partial      *float64 `json:"partial_rotary_factor"`
	Quantization any      `json:"quantization_config"`
	EOS          any      `json:"eos_token_id"`
}

type hfRope struct {
	Type    string   `json:"rope_type"`
	OldType string   `json:"type"`
	Theta   *float64 `json:"rope_theta"`
	Partial *float64 `json:"partial_rotary_factor"`
	Factor  float64  `json:"factor"`
	Low     float64  `json:"low_freq_factor"`
	High    float64  `json:"high_freq_factor"`
	Context float64  `json:"original_max_position_embeddings"`
}

// ConfigFromHF reads config.json (LlamaConfig of transformers). What this
// forward pass does not compute is refused by name: other architectures, biases,
// other activations, quantized weights, other RoPE scaling than llama3.
func ConfigFromHF(data []byte) (Config, error) {
	var h hfConfig
	if err := json.Unmarshal(data, &h); err != nil {
		return Config{}, fmt.Errorf("llama: config.json: %w", err)
	}
	if err := h.refuse(); err != nil {
		return Config{}, err
	}
	c := Config{
		Layers: h.Layers, Hidden: h.Hidden, Heads: h.Heads, FFN: h.FFN, Vocab: h.Vocab, Tied: h.Tied,
		KVHeads: or(h.KVHeads, h.Heads), HeadDim: or(h.HeadDim, 0), Context: or(h.Context, 2048),
		Eps: float64(float32(or(h.Eps, 1e-6))), Theta: or(h.Theta, 10000),
	}
	if c.HeadDim == 0 && c.Heads > 0 {
		c.HeadDim = c.Hidden / c.Heads
	}
	rope := h.Scaling
	if h.Parameters != nil {
		rope = h.Parameters
		c.Theta = or(rope.Theta, c.Theta)
	}
	c.Theta = float64(float32(c.Theta))
	var err error
	if c.EOS, err = eosIDs(h.EOS); err != nil {
		return Config{}, err
	}
	if err := c.validate(); err != nil {
		return Config{}, err
	}
	if rope != nil {
		if c.FreqFactors, err = rope.factors(c); err != nil {
			return Config{}, err
		}
	}
	return c, c.validate()
}

func (h hfConfig) refuse() error {
	unsupported := func(key string, got any, want string) error {
		return fmt.Errorf("llama: config.json: %s: got %v, want %s; this forward pass does not compute it", key, got, want)
	}
	partial := h.Partial
	if h.Parameters != nil && h.Parameters.Partial != nil {
		partial = h.Parameters.Partial
	}
	switch {
	case h.ModelType != "llama":
		return unsupported("model_type", fmt.Sprintf("%q", h.ModelType), `"llama"`)
	case h.Act != nil && *h.Act != "silu":
		return unsupported("hidden_act", fmt.Sprintf("%q", *h.Act), `"silu"`)
	case h.AttnBias:
		return unsupported("attention_bias", true, "false")
	case h.MLPBias:
		return unsupported("mlp_bias", true, "false")
	case h.Quantization != nil:
		return unsupported("quantization_config", "a value", "none")
	case or(h.PretrainTP, 1) > 1:
		return unsupported("pretraining_tp", *h.PretrainTP, "1")
	case or(partial, 1) != 1:
		return unsupported("partial_rotary_factor", *partial, "1")
	}
	return nil
}

// factors gives what the RoPE frequencies are divided by. For llama3 they are
// rounded to float32, as the converter stores them in rope_freqs.weight.
func (r hfRope) factors(c Config) ([]float64, error) {
	kind := r.Type
	if kind == "" {
		kind = r.OldType
	}
	switch kind {
	case "", "default":
		return nil, nil
	case "llama3":
	default:
		return nil, fmt.Errorf("llama: config.json: rope_type: got %q, want \"default\" or \"llama3\"; this forward pass does not compute it", kind)
	}
	if !(r.Factor >= 1 && r.Low > 0 && r.High > r.Low && r.Context >= 1) {
		return nil, fmt.Errorf("llama: config.json: llama3 RoPE scaling: got factor %v, low %v, high %v, original context %v, want factor ≥ 1, 0 < low < high, context ≥ 1",
			r.Factor, r.Low, r.High, r.Context)
	}
	f := make([]float64, c.HeadDim/2)
	for i, freq := range c.frequencies() {
		turns := r.Context * freq / (2 * math.Pi) // of this plane over the original context
		switch {
		case turns > r.High:
			f[i] = 1
		case turns < r.Low:
			f[i] = r.Factor
		default:
			smooth := (turns - r.Low) / (r.High - r.Low)
			f[i] = 1 / (float64((1-smooth)/r.Factor) + smooth)
		}
		f[i] = float64(float32(f[i]))
	}
	return f, nil
}

// eosIDs reads eos_token_id: a number, a list of numbers, or nothing.
func eosIDs(v any) ([]uint32, error) {
	list, ok := v.([]any)
	if !ok && v != nil {
		list = []any{v}
	}
	var ids []uint32
	for _, e := range list {
		f, ok := e.(float64)
		if !ok || f < 0 || f >= maxVocab || f != math.Trunc(f) {
			return nil, fmt.Errorf("llama: config.json: eos_token_id: got %v, want token ids", v)
		}
		ids = append(ids, uint32(f))
	}
	return ids, nil
}

func or[T any](v *T, otherwise T) T {
	if v == nil {
		return otherwise
	}
	return *v
}
