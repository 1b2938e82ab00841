package convert

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// File types of general.file_type, as llama.cpp numbers them.
const (
	FileF32  = 0
	FileF16  = 1
	FileQ8_0 = 7
	FileBF16 = 32
)

// quantizationVersion is the version of ggml's block layouts.
const quantizationVersion = 2

// hyperParameters lists the architecture's keys in the converter's order, up to
// general.quantization_version.
func (c *Config) hyperParameters(opts Options) []gguf.KV {
	kvs := c.list(c.architecture.Keys, opts)
	return append(kvs, gguf.KV{Key: "general.quantization_version", Value: gguf.Uint32(quantizationVersion)})
}

func (c *Config) list(keys []string, opts Options) []gguf.KV {
	var kvs []gguf.KV
	for _, key := range keys {
		value, ok := c.hyper(key, opts)
		if !ok {
			continue
		}
		if !strings.HasPrefix(key, "general.") {
			key = c.architecture.GGUF + "." + key
		}
		kvs = append(kvs, gguf.KV{Key: key, Value: value})
	}
	return kvs
}

// hyper gives one hyper-parameter; ok is false where the checkpoint gives none.
func (c *Config) hyper(key string, opts Options) (value gguf.Value, ok bool) {
	u := func(n int64) (gguf.Value, bool) { return gguf.Uint32(uint32(n)), true }
	f := func(x *float64) (gguf.Value, bool) {
		if x == nil {
			return gguf.Value{}, false
		}
		return gguf.Float32(float32(*x)), true
	}
	// gives tells that the converter finds a field: in config.json, or among what transformers adds.
	gives := func(field string) bool { return !opts.AsStated || c.stated(field) }
	yarn := c.ropeType() == "yarn"
	switch key {
	case "block_count":
		return u(c.Layers)
	case "context_length":
		return u(c.Positions)
	case "embedding_length":
		return u(c.HiddenSize)
	case "feed_forward_length":
		return u(c.InnerSize)
	case "expert_feed_forward_length":
		return u(c.ExpertInnerSize)
	case "vocab_size":
		return u(c.VocabSize)
	case "attention.head_count":
		return u(c.Heads)
	case "attention.head_count_kv":
		if gives("num_key_value_heads") {
			return u(c.kvHeads())
		}
	case "attention.key_length", "attention.value_length":
		if c.HeadDim != nil && gives("head_dim") || c.architecture.HeadDimStated && !opts.AsStated {
			return u(c.headDim())
		}
	case "attention.layer_norm_rms_epsilon":
		return f(&c.RMSNormEpsilon)
	case "attention.sliding_window":
		if c.WindowPattern == nil || *c.WindowPattern != 1 || c.architecture.GGUF == "phi3" {
			return u(c.window())
		}
	case "attn_logit_softcapping":
		return f(c.AttentionCap)
	case "final_logit_softcapping":
		if c.FinalCap != nil && *c.FinalCap != 0 {
			return f(c.FinalCap)
		}
	case "expert_count":
		if n := c.experts(); n > 0 {
			return u(n)
		}
	case "expert_used_count":
		if c.ExpertsUsed != nil {
			return u(*c.ExpertsUsed)
		}
	case "rope.dimension_count":
		return u(c.rotated())
	case "rope.freq_base":
		if theta, has := c.ropeTheta(); has && (c.rope.Theta != c.RopeTheta || gives("rope_theta")) {
			return f(&theta)
		}
	case "rope.freq_base_swa":
		return f(c.LocalTheta)
	case "rope.scaling.type":
		if t := c.ropeType(); t == "linear" || yarn {
			return gguf.String(t), true
		}
	case "rope.scaling.factor":
		if c.ropeType() == "linear" || yarn {
			return f(c.rope.Factor)
		}
	case "rope.scaling.original_context_length":
		if c.rope.OldPositions != nil && (yarn || c.architecture.GGUF == "phi3") {
			return u(int64(*c.rope.OldPositions))
		}
	case "rope.scaling.attn_factor":
		if factor, has := c.attentionFactor(); has {
			return f(&factor)
		}
	case "general.file_type":
		return gguf.Uint32(opts.As.fileType()), true
	}
	if !yarn {
		return gguf.Value{}, false
	}
	switch key {
	case "rope.scaling.yarn_ext_factor":
		return f(c.rope.Extrapolation)
	case "rope.scaling.yarn_attn_factor":
		if c.rope.Attention != nil {
			return f(c.rope.Attention)
		}
		return f(c.rope.LegacyAttn)
	case "rope.scaling.yarn_beta_fast":
		return f(c.rope.BetaFast)
	case "rope.scaling.yarn_beta_slow":
		return f(c.rope.BetaSlow)
	}
	return gguf.Value{}, false
}

// Defaults gives the value that a reader of GGUF assumes for a key that is
// absent, for the keys that a converter may leave out without changing the model.
func (c *Config) Defaults() map[string]gguf.Value {
	prefix := c.architecture.GGUF + "."
	d := map[string]gguf.Value{
		prefix + "attention.head_count_kv": gguf.Uint32(uint32(c.Heads)),
		prefix + "rope.freq_base":          gguf.Float32(defaultTheta),
		prefix + "vocab_size":              gguf.Uint32(uint32(c.VocabSize)),
	}
	if c.Heads*c.headDim() == c.HiddenSize {
		for _, key := range []string{"attention.key_length", "attention.value_length", "rope.dimension_count"} {
			d[prefix+key] = gguf.Uint32(uint32(c.headDim()))
		}
	}
	switch c.architecture.GGUF {
	case "gemma3":
		d[prefix+"rope.freq_base_swa"] = gguf.Float32(defaultTheta)
	case "gemma2":
		d[prefix+"attention.sliding_window"] = gguf.Uint32(4096)
	}
	return d
}

// sizeLabel writes a parameter count as the converter does: 3.3M, 70B; 8x7.2B
// with experts, of which one is counted.
func sizeLabel(parameters, experts int64) string {
	if experts > 0 {
		return fmt.Sprintf("%dx%s", experts, sizeLabel(parameters, 0))
	}
	n := float64(parameters)
	for _, s := range []struct {
		above, scale float64
		suffix       string
	}{{1e12, 1e-12, "T"}, {1e9, 1e-9, "B"}, {1e6, 1e-6, "M"}, {-1, 1e-3, "K"}} {
		if n > s.above {
			scaled := float64(n * s.scale)
			whole := strings.TrimLeft(strconv.FormatFloat(math.RoundToEven(scaled), 'f', 0, 64), "0")
			return fmt.Sprintf("%.*f%s", max(2-len(whole), 0), scaled, s.suffix)
		}
	}
	return ""
}
