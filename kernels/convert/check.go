package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// check refuses sizes that no model has and what the conversion would lose.
func (c *Config) check() error {
	a := c.architecture
	if set(c.Quantization) {
		return errors.New("config.json: quantization_config: got a quantized checkpoint, want plain weights")
	}
	if act := c.activation(); act != "" && act != a.Activation {
		return fmt.Errorf("config.json: %s: got %q, want %s; GGUF's %s has no other", c.activationField(), act, a.Activation, a.GGUF)
	}
	if err := c.checkSizes(); err != nil {
		return err
	}
	if err := c.checkExperts(); err != nil {
		return err
	}
	if c.headDim() > maxHeadDim {
		return fmt.Errorf("config.json: head_dim: got %d, want at most %d", c.headDim(), maxHeadDim)
	}
	if c.Heads%c.kvHeads() != 0 || c.headDim()%2 != 0 {
		return fmt.Errorf("config.json: got %d query heads, %d key-value heads, head dimension %d; want key-value heads that divide the query heads, and an even head dimension", c.Heads, c.kvHeads(), c.headDim())
	}
	if !positive(c.RMSNormEpsilon) {
		return fmt.Errorf("config.json: rms_norm_eps: got %v, want above 0", c.RMSNormEpsilon)
	}
	if err := c.checkWindow(); err != nil {
		return err
	}
	return c.checkRope()
}

func (c *Config) activationField() string {
	if c.Activation2 != "" {
		return "hidden_activation"
	}
	return "hidden_act"
}

func (c *Config) checkSizes() error {
	for _, f := range []struct {
		name string
		n    int64
	}{
		{"hidden_size", c.HiddenSize}, {"intermediate_size", c.InnerSize}, {"num_hidden_layers", c.Layers}, {"num_attention_heads", c.Heads},
		{"num_key_value_heads", c.kvHeads()}, {"vocab_size", c.VocabSize}, {"max_position_embeddings", c.Positions}, {"head_dim", c.headDim()},
	} {
		if f.n < 1 || f.n > math.MaxInt32 {
			return fmt.Errorf("config.json: %s: got %d, want 1 to %d", f.name, f.n, math.MaxInt32)
		}
	}
	return nil
}

// checkExperts refuses experts where the architecture has none, and layers without experts where it has some.
func (c *Config) checkExperts() error {
	n := c.experts()
	switch {
	case !c.architecture.stacked() && (c.LocalExperts != nil || c.NumExperts != nil):
		return fmt.Errorf("config.json: num_local_experts or num_experts: got %d, want none: %s has no experts", n, c.architecture.HF)
	case !c.architecture.stacked():
		return nil
	case n < 1 || n > maxExperts:
		return fmt.Errorf("config.json: number of experts: got %d, want 1 to %d", n, maxExperts)
	case c.ExpertsUsed == nil || *c.ExpertsUsed < 1 || *c.ExpertsUsed > n:
		return fmt.Errorf("config.json: num_experts_per_tok: got %s, want 1 to %d", shown(c.ExpertsUsed), n)
	case c.ExpertInnerSize < 0 || c.ExpertInnerSize > math.MaxInt32 || c.ExpertInnerSize == 0 && slices.Contains(c.architecture.Keys, "expert_feed_forward_length"):
		return fmt.Errorf("config.json: moe_intermediate_size: got %d, want 1 to %d", c.ExpertInnerSize, math.MaxInt32)
	case len(c.DenseLayers) > 0:
		return fmt.Errorf("config.json: mlp_only_layers: got %d layers, want none: dense layers among layers of experts are not converted here", len(c.DenseLayers))
	case c.SparseStep != nil && *c.SparseStep != 1:
		return fmt.Errorf("config.json: decoder_sparse_step: got %d, want 1: dense layers among layers of experts are not converted here", *c.SparseStep)
	}
	return nil
}

// checkWindow checks the sliding window and the caps of architectures that have them in GGUF.
func (c *Config) checkWindow() error {
	keys := c.architecture.Keys
	if slices.Contains(keys, "attention.sliding_window") {
		if w := c.window(); w < 0 || w > math.MaxInt32 || w == 0 && strings.HasPrefix(c.architecture.GGUF, "gemma") {
			return fmt.Errorf("config.json: sliding_window: got %s, want 1 to %d", shown(c.SlidingWindow), math.MaxInt32)
		}
	}
	for _, f := range []struct {
		name, key string
		cap       *float64
	}{{"attn_logit_softcapping", "attn_logit_softcapping", c.AttentionCap}, {"final_logit_softcapping", "final_logit_softcapping", c.FinalCap}} {
		has := slices.Contains(keys, f.key)
		switch {
		case has && f.cap != nil && *f.cap != 0 && !positive(*f.cap):
			return fmt.Errorf("config.json: %s: got %v, want a number above 0", f.name, *f.cap)
		case has && f.cap == nil && c.architecture.Unstated[f.name] != nil:
			return fmt.Errorf("config.json: %s: got null, want a number: %s cannot be converted without", f.name, c.architecture.HF)
		case !has && f.cap != nil:
			return fmt.Errorf("config.json: %s: got %v, want none: GGUF's %s does not hold it", f.name, *f.cap, c.architecture.GGUF)
		}
	}
	return nil
}

// window is the sliding window, 0 for none.
func (c *Config) window() int64 {
	if c.SlidingWindow == nil {
		return 0
	}
	return *c.SlidingWindow
}

// positive tells numbers that stay positive and finite as F32.
func positive(x float64) bool { return float32(x) > 0 && x <= math.MaxFloat32 }

func shown[T any](p *T) string {
	if p == nil {
		return "none"
	}
	return fmt.Sprint(*p)
}

func set(m json.RawMessage) bool { return len(m) > 0 && string(m) != "null" }
