package llama

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/quant"
)

// ggufKeys are the metadata keys of the architecture that this forward pass
// understands. Any other llama.* key would change the numbers: it is refused by name.
var ggufKeys = map[string]bool{
	"block_count": true, "context_length": true, "embedding_length": true, "feed_forward_length": true, "vocab_size": true,
	"attention.head_count": true, "attention.head_count_kv": true, "attention.key_length": true, "attention.value_length": true,
	"attention.layer_norm_rms_epsilon": true, "rope.freq_base": true, "rope.dimension_count": true,
}

const ropeFreqs = "rope_freqs.weight"

// ConfigFromGGUF reads the llama.* keys and rope_freqs.weight of a GGUF file.
func ConfigFromGGUF(f *gguf.File) (Config, error) {
	if v, _ := f.KV("general.architecture"); !isText(v, "llama") {
		return Config{}, fmt.Errorf("llama: gguf: general.architecture: want \"llama\"; this forward pass computes no other")
	}
	if f.Order != binary.LittleEndian {
		return Config{}, fmt.Errorf("llama: gguf: byte order: got %v, want little-endian", f.Order)
	}
	for _, kv := range f.KVs {
		if key, ok := strings.CutPrefix(kv.Key, "llama."); ok && !ggufKeys[key] {
			return Config{}, fmt.Errorf("llama: gguf: %s: this forward pass does not compute it", kv.Key)
		}
	}
	k := keys{file: f}
	c := Config{
		Layers: k.int("block_count", 0), Hidden: k.int("embedding_length", 0), FFN: k.int("feed_forward_length", 0),
		Context: k.int("context_length", 0), Heads: k.int("attention.head_count", 0),
		Eps: k.float("attention.layer_norm_rms_epsilon", 0), Theta: k.float("rope.freq_base", 10000),
	}
	c.KVHeads = k.int("attention.head_count_kv", c.Heads)
	if c.Heads > 0 {
		c.HeadDim = k.int("attention.key_length", c.Hidden/c.Heads)
	}
	for _, key := range []string{"attention.value_length", "rope.dimension_count"} {
		if got := k.int(key, c.HeadDim); c.Heads > 0 && got != c.HeadDim && k.err == nil {
			k.err = fmt.Errorf("llama: gguf: llama.%s: got %d, want %d, the head size", key, got, c.HeadDim)
		}
	}
	if t, ok := f.Tensor("token_embd.weight"); ok && len(t.Dims) == 2 && t.Dims[1] <= maxVocab {
		c.Vocab = int(t.Dims[1])
	}
	_, separate := f.Tensor("output.weight")
	c.Tied = !separate
	if v, ok := f.KV("tokenizer.ggml.eos_token_id"); ok {
		id, ok := v.Uint()
		if !ok || id >= maxVocab {
			return Config{}, fmt.Errorf("llama: gguf: tokenizer.ggml.eos_token_id: want a token id")
		}
		c.EOS = []uint32{uint32(id)}
	}
	if k.err != nil {
		return Config{}, k.err
	}
	if err := c.validate(); err != nil {
		return Config{}, err
	}
	if _, ok := f.Tensor(ropeFreqs); ok {
		c.FreqFactors = make([]float64, c.HeadDim/2)
		if err := (ggufSource{f, c}).Vector(ropeFreqs, c.FreqFactors); err != nil {
			return Config{}, err
		}
	}
	return c, c.validate()
}

func isText(v gguf.Value, want string) bool {
	s, ok := v.Text()
	return ok && s == want
}

// keys reads llama.* numbers and keeps the first error.
type keys struct {
	file *gguf.File
	err  error
}

func (k *keys) int(key string, otherwise int) int {
	v, ok := k.file.KV("llama." + key)
	if !ok {
		return otherwise
	}
	n, ok := v.Uint()
	if (!ok || n > maxContext) && k.err == nil {
		k.err = fmt.Errorf("llama: gguf: llama.%s: want a whole number of at most %d", key, maxContext)
	}
	return int(n)
}

func (k *keys) float(key string, otherwise float64) float64 {
	v, ok := k.file.KV("llama." + key)
	if !ok {
		return otherwise
	}
	x, ok := v.Float()
	if !ok && k.err == nil {
		k.err = fmt.Errorf("llama: gguf: llama.%s: want a floating-point number", key)
	}
	return float64(float32(x))
}

// OpenGGUF gives a GGUF file's tensors. All tensors that the architecture
// needs must be there with their exact shapes, in types that [quant] can read, and no others.
func OpenGGUF(f *gguf.File) (Source, error) {
	c, err := ConfigFromGGUF(f)
	if err != nil {
		return nil, err
	}
	used := map[string]bool{ropeFreqs: true}
	for _, p := range c.parts() {
		name := ggufName(p.name)
		used[name] = true
		t, ok := f.Tensor(name)
		if !ok {
			return nil, fmt.Errorf("llama: gguf: tensor %s: got none, want shape %v", name, p.shape())
		}
		if !sameDims(t.Dims, p) {
			return nil, fmt.Errorf("llama: gguf: tensor %s: got dimensions %v (fastest first), want shape %v", name, t.Dims, p.shape())
		}
		if _, err := quant.For(t.Type); err != nil {
			return nil, fmt.Errorf("llama: gguf: tensor %s: %w", name, err)
		}
	}
	for _, t := range f.Tensors {
		if !used[t.Name] {
			return nil, fmt.Errorf("llama: gguf: tensor %s: this forward pass does not use it; the numbers would not be the model's", t.Name)
		}
	}
	return ggufSource{f, c}, nil
}

func sameDims(dims []uint64, p part) bool {
	if p.rows == 0 {
		return len(dims) == 1 && dims[0] == uint64(p.cols)
	}
	return len(dims) == 2 && dims[0] == uint64(p.cols) && dims[1] == uint64(p.rows)
}

var ggufParts = map[string]string{
	"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
	"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
	"mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}

// ggufName is what the converter calls a Hugging Face tensor.
func ggufName(name string) string {
	switch name {
	case embedName:
		return "token_embd.weight"
	case normName:
		return "output_norm.weight"
	case headName:
		return "output.weight"
	}
	layer, rest, ok := strings.Cut(strings.TrimPrefix(name, "model.layers."), ".")
	if _, err := strconv.Atoi(layer); !ok || err != nil {
		return name
	}
	return "blk." + layer + "." + ggufParts[strings.TrimSuffix(rest, ".weight")] + ".weight"
}

type ggufSource struct {
	file *gguf.File
	cfg  Config
}

func (s ggufSource) Config() Config { return s.cfg }

func (s ggufSource) Vector(name string, dst []float64) error {
	return s.Rows(name, 1, len(dst), 0, dst)
}

// Rows undoes the converter's interleaving of Q and K: within each head, row
// 2j + s of the file is row s·HeadDim/2 + j of the model.
func (s ggufSource) Rows(name string, rows, cols, first int, dst []float64) error {
	t, ok := s.file.Tensor(ggufName(name))
	if !ok {
		return fmt.Errorf("llama: gguf: tensor %s: got none", ggufName(name))
	}
	codec, err := quant.For(t.Type)
	if err != nil {
		return fmt.Errorf("llama: gguf: tensor %s: %w", t.Name, err)
	}
	if t.Elements() != uint64(rows*cols) || cols%codec.Weights != 0 {
		return fmt.Errorf("llama: gguf: tensor %s: got %d elements of %s, want %d rows of %d", t.Name, t.Elements(), t.Type, rows, cols)
	}
	raw := make([]byte, codec.Size(int64(cols)))
	row := make([]float32, cols)
	section := s.file.Section(t)
	interleaved := strings.HasSuffix(name, "self_attn.q_proj.weight") || strings.HasSuffix(name, "self_attn.k_proj.weight")
	for i := range len(dst) / cols {
		from := first + i
		if interleaved {
			from = interleavedRow(from, s.cfg.HeadDim)
		}
		if _, err := section.ReadAt(raw, int64(from)*int64(len(raw))); err != nil {
			return fmt.Errorf("llama: gguf: tensor %s: row %d: %w", t.Name, from, err)
		}
		codec.Dequantize(row, raw)
		for j, v := range row {
			dst[i*cols+j] = float64(v)
		}
	}
	return nil
}

// interleavedRow is the row of the file that holds row r of the model.
func interleavedRow(r, headDim int) int {
	head, in := r/headDim*headDim, r%headDim
	return head + in%(headDim/2)*2 + in/(headDim/2)
}
