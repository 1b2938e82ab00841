package safetensors

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/weighmaster/weighmaster/kernels"
)

// Config is the part of a model's config.json that fixes the shapes of its
// tensors. Zero means that the field is absent.
type Config struct {
	Architectures     []string `json:"architectures"`
	HiddenSize        uint64   `json:"hidden_size"`
	IntermediateSize  uint64   `json:"intermediate_size"`
	NumHiddenLayers   uint64   `json:"num_hidden_layers"`
	NumAttentionHeads uint64   `json:"num_attention_heads"`
	NumKeyValueHeads  uint64   `json:"num_key_value_heads"`
	HeadDim           uint64   `json:"head_dim"`
	VocabSize         uint64   `json:"vocab_size"`
	TieWordEmbeddings *bool    `json:"tie_word_embeddings"`

	packed bool // matrices are stored in another form, so that their shapes are not the model's
}

// maxField bounds the numbers of a config.json, so that products of two fit.
const maxField = 1 << 31

// ReadConfig reads config.json of a folder. Fields that are not in [Config]
// are ignored. A folder without one gives an error that is fs.ErrNotExist.
func ReadConfig(fsys fs.FS) (*Config, error) {
	b, err := readConfig(fsys)
	if err != nil {
		return nil, err
	}
	var c Config
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, &FormatError{What: "config.json", Got: err.Error(), Want: "an object with numbers where shapes are given"}
	}
	var stored struct {
		MLX          json.RawMessage `json:"quantization"`
		Quantization json.RawMessage `json:"quantization_config"`
	}
	if err := json.Unmarshal(b, &stored); err != nil {
		return nil, &FormatError{What: "config.json", Got: err.Error(), Want: "an object"}
	}
	c.packed = container(stored.MLX, stored.Quantization) != ""
	for _, n := range []uint64{c.HiddenSize, c.IntermediateSize, c.NumHiddenLayers, c.NumAttentionHeads, c.NumKeyValueHeads, c.HeadDim, c.VocabSize} {
		if n > maxField {
			return nil, &FormatError{What: "config.json", Got: fmt.Sprint(n), Want: fmt.Sprintf("numbers up to %d", maxField)}
		}
	}
	return &c, nil
}

func readConfig(fsys fs.FS) ([]byte, error) {
	f, err := fsys.Open("config.json")
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxConfig+1))
	if err != nil {
		return nil, fmt.Errorf("safetensors: config.json: %w", err)
	}
	if len(b) > MaxConfig {
		return nil, &FormatError{What: "config.json", Got: fmt.Sprintf("more than %d bytes", MaxConfig), Want: "a configuration"}
	}
	return b, nil
}

// tied tells what the config says of the output matrix: absent means not tied.
func (c *Config) tied() bool { return c.TieWordEmbeddings != nil && *c.TieWordEmbeddings }

// known tells whether the shapes of the architecture, as it is stored, are known here.
func (c *Config) known() bool {
	return !c.packed && slices.Equal(c.Architectures, []string{"LlamaForCausalLM"})
}

// expected is one tensor that the architecture calls for.
type expected struct {
	name  string
	shape []uint64
}

// llama lists the tensors of a LlamaForCausalLM. The output matrix is not
// among them: whether it is there is reported beside the config's word for it.
// Biases are optional and not listed.
func (c *Config) llama(yield func(expected) bool) {
	head := c.HeadDim
	if head == 0 {
		head = c.HiddenSize / c.NumAttentionHeads
	}
	kv := c.NumKeyValueHeads
	if kv == 0 {
		kv = c.NumAttentionHeads
	}
	h, q, k, i := c.HiddenSize, head*c.NumAttentionHeads, head*kv, c.IntermediateSize
	if !yield(expected{"model.embed_tokens.weight", []uint64{c.VocabSize, h}}) || !yield(expected{"model.norm.weight", []uint64{h}}) {
		return
	}
	for n := range c.NumHiddenLayers {
		for _, e := range []expected{
			{"input_layernorm", []uint64{h}}, {"post_attention_layernorm", []uint64{h}},
			{"self_attn.q_proj", []uint64{q, h}}, {"self_attn.k_proj", []uint64{k, h}},
			{"self_attn.v_proj", []uint64{k, h}}, {"self_attn.o_proj", []uint64{h, q}},
			{"mlp.gate_proj", []uint64{i, h}}, {"mlp.up_proj", []uint64{i, h}}, {"mlp.down_proj", []uint64{h, i}},
		} {
			if !yield(expected{fmt.Sprintf("model.layers.%d.%s.weight", n, e.name), e.shape}) {
				return
			}
		}
	}
}

// checkConfig compares the tensors of a known architecture with its config.
// It stops at as many findings as a report lists, whatever number of layers
// the config claims.
func checkConfig(c *Config, tensors map[string][]uint64) []kernels.Finding {
	if c.HiddenSize == 0 || c.IntermediateSize == 0 || c.NumHiddenLayers == 0 || c.NumAttentionHeads == 0 || c.VocabSize == 0 {
		return []kernels.Finding{{Check: CheckConfig, Where: "config.json", Got: "a size that is absent or zero",
			Want: "hidden_size, intermediate_size, num_hidden_layers, num_attention_heads and vocab_size"}}
	}
	var found []kernels.Finding
	c.llama(func(e expected) bool {
		switch shape, ok := tensors[e.name]; {
		case !ok:
			found = append(found, kernels.Finding{Check: CheckModelTensor, Where: e.name, Got: "no such tensor", Want: fmt.Sprint(e.shape)})
		case !slices.Equal(shape, e.shape):
			found = append(found, kernels.Finding{Check: CheckShape, Where: e.name, Got: fmt.Sprint(shape), Want: fmt.Sprint(e.shape)})
		}
		return len(found) < kernels.MaxFindings
	})
	output := expected{"lm_head.weight", []uint64{c.VocabSize, c.HiddenSize}}
	if shape, ok := tensors[output.name]; ok && !slices.Equal(shape, output.shape) {
		found = append(found, kernels.Finding{Check: CheckShape, Where: output.name, Got: fmt.Sprint(shape), Want: fmt.Sprint(output.shape)})
	} else if !ok && !c.tied() {
		found = append(found, kernels.Finding{Check: CheckModelTensor, Where: output.name, Got: "no such tensor", Want: fmt.Sprintf("%v, as tie_word_embeddings is not true", output.shape)})
	}
	return found
}

// llamaParameters is the number of elements that the config calls for, with
// the output matrix where the file has one.
func (c *Config) llamaParameters(withOutput bool) float64 {
	total := 0.0
	if withOutput {
		total = float64(c.VocabSize) * float64(c.HiddenSize)
	}
	c.llama(func(e expected) bool {
		n := 1.0
		for _, d := range e.shape {
			n *= float64(d)
		}
		total += n
		return true
	})
	return total
}
