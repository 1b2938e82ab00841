package convert

import (
	"fmt"
	"math"
	"strconv"

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

// hyperParameters lists the architecture's keys in the converter's order, from
// llama.block_count to general.quantization_version.
func (c *Config) hyperParameters(fileType uint32) []gguf.KV {
	u := func(key string, n int64) gguf.KV { return gguf.KV{Key: key, Value: gguf.Uint32(uint32(n))} }
	kvs := []gguf.KV{
		u("llama.block_count", c.Layers),
		u("llama.context_length", c.Positions),
		u("llama.embedding_length", c.HiddenSize),
		u("llama.feed_forward_length", c.InnerSize),
		u("llama.attention.head_count", c.Heads),
	}
	if c.KVHeads != nil {
		kvs = append(kvs, u("llama.attention.head_count_kv", *c.KVHeads))
	}
	if theta, stated := c.ropeTheta(); stated {
		kvs = append(kvs, gguf.KV{Key: "llama.rope.freq_base", Value: gguf.Float32(float32(theta))})
	}
	kvs = append(kvs, gguf.KV{Key: "llama.attention.layer_norm_rms_epsilon", Value: gguf.Float32(float32(c.RMSNormEpsilon))})
	if c.HeadDim != nil {
		kvs = append(kvs, u("llama.attention.key_length", *c.HeadDim), u("llama.attention.value_length", *c.HeadDim))
	}
	return append(kvs,
		gguf.KV{Key: "general.file_type", Value: gguf.Uint32(fileType)},
		u("llama.vocab_size", c.VocabSize),
		u("llama.rope.dimension_count", c.headDim()),
		u("general.quantization_version", quantizationVersion),
	)
}

// Defaults gives the value that a reader of GGUF assumes for a key that is
// absent, for the keys that a converter may leave out without changing the model.
func (c *Config) Defaults() map[string]gguf.Value {
	d := map[string]gguf.Value{
		"llama.attention.head_count_kv": gguf.Uint32(uint32(c.Heads)),
		"llama.rope.freq_base":          gguf.Float32(10000),
		"llama.vocab_size":              gguf.Uint32(uint32(c.VocabSize)),
	}
	if c.Heads*c.headDim() == c.HiddenSize {
		for _, key := range []string{"llama.attention.key_length", "llama.attention.value_length", "llama.rope.dimension_count"} {
			d[key] = gguf.Uint32(uint32(c.headDim()))
		}
	}
	return d
}

// sizeLabel writes a parameter count as the converter does: 3.3M, 70B.
func sizeLabel(parameters int64) string {
	n := float64(parameters)
	for _, s := range []struct {
		above, scale float64
		suffix       string
	}{{1e12, 1e12, "T"}, {1e9, 1e9, "B"}, {1e6, 1e6, "M"}, {0, 1e3, "K"}} {
		if n > s.above {
			scaled := n / s.scale
			digits := max(2-len(strconv.FormatFloat(math.RoundToEven(scaled), 'f', 0, 64)), 0)
			return fmt.Sprintf("%.*f%s", digits, scaled, s.suffix)
		}
	}
	return "0K"
}
