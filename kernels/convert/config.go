package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
)

// maxJSON bounds each JSON file of a snapshot, in bytes. Large vocabularies reach 20 MB.
const maxJSON = 64 << 20

// maxHeadDim bounds the head dimension; known models have up to 512.
const maxHeadDim = 1 << 16

// Config is config.json of a LlamaForCausalLM checkpoint, as far as weights and
// GGUF metadata depend on it.
type Config struct {
	Architectures  []string        `json:"architectures"`
	HiddenSize     int64           `json:"hidden_size"`
	InnerSize      int64           `json:"intermediate_size"`
	Layers         int64           `json:"num_hidden_layers"`
	Heads          int64           `json:"num_attention_heads"`
	KVHeads        *int64          `json:"num_key_value_heads"` // nil: as many as query heads
	HeadDim        *int64          `json:"head_dim"`            // nil: hidden size / heads
	VocabSize      int64           `json:"vocab_size"`
	Positions      int64           `json:"max_position_embeddings"`
	RMSNormEpsilon float64         `json:"rms_norm_eps"`
	RopeTheta      *float64        `json:"rope_theta"` // nil: 10000
	RopeScaling    *Rope           `json:"rope_scaling"`
	RopeParameters *Rope           `json:"rope_parameters"` // newer spelling, holds theta too
	OldPositions   *float64        `json:"original_max_position_embeddings"`
	Activation     string          `json:"hidden_act"`
	Experts        json.RawMessage `json:"num_local_experts"`
	Quantization   json.RawMessage `json:"quantization_config"`
	TieEmbeddings  bool            `json:"tie_word_embeddings"`
	specialTokens  map[string]any  // every key of the file: bos_token_id and the like are looked up here
}

// Rope is the RoPE part of config.json.
type Rope struct {
	Type         string   `json:"rope_type"`
	LegacyType   string   `json:"type"`
	Theta        *float64 `json:"rope_theta"`
	Factor       *float64 `json:"factor"`
	LowFreq      *float64 `json:"low_freq_factor"`
	HighFreq     *float64 `json:"high_freq_factor"`
	OldPositions *float64 `json:"original_max_position_embeddings"`
}

// ReadConfig reads and checks config.json. It refuses what the conversion does
// not cover, by name: other architectures, experts, quantized checkpoints, and
// RoPE scaling other than llama3.
func ReadConfig(fsys fs.FS) (Config, error) {
	var c Config
	body, err := readJSON(fsys, "config.json", &c)
	if err != nil {
		return Config{}, err
	}
	if err := json.Unmarshal(body, &c.specialTokens); err != nil {
		return Config{}, fmt.Errorf("config.json: %w", err)
	}
	return c, c.check()
}

func (c *Config) check() error {
	if len(c.Architectures) != 1 || c.Architectures[0] != "LlamaForCausalLM" {
		return fmt.Errorf("config.json: architectures: got %q, want exactly LlamaForCausalLM; other architectures are not converted here", c.Architectures)
	}
	if set(c.Experts) {
		return fmt.Errorf("config.json: num_local_experts: got %s, want none; mixtures of experts are not converted here", c.Experts)
	}
	if set(c.Quantization) {
		return errors.New("config.json: quantization_config: got a quantized checkpoint, want plain weights")
	}
	if c.Activation != "" && c.Activation != "silu" {
		return fmt.Errorf("config.json: hidden_act: got %q, want silu; GGUF's llama has no other", c.Activation)
	}
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
	if c.headDim() > maxHeadDim {
		return fmt.Errorf("config.json: head_dim: got %d, want at most %d", c.headDim(), maxHeadDim)
	}
	if c.Heads%c.kvHeads() != 0 || c.headDim()%2 != 0 {
		return fmt.Errorf("config.json: got %d query heads, %d key-value heads, head dimension %d; want key-value heads that divide the query heads, and an even head dimension", c.Heads, c.kvHeads(), c.headDim())
	}
	if !(c.RMSNormEpsilon > 0) {
		return fmt.Errorf("config.json: rms_norm_eps: got %v, want above 0", c.RMSNormEpsilon)
	}
	switch t := c.ropeType(); t {
	case "", "default", "llama3":
		return nil
	default:
		return fmt.Errorf("config.json: rope_type: got %q, want default or llama3; other RoPE scaling is not converted here, and leaving it out would change every position", t)
	}
}

func set(m json.RawMessage) bool { return len(m) > 0 && string(m) != "null" }

func (c *Config) kvHeads() int64 {
	if c.KVHeads != nil {
		return *c.KVHeads
	}
	return c.Heads
}

func (c *Config) headDim() int64 {
	if c.HeadDim != nil {
		return *c.HeadDim
	}
	if c.Heads < 1 {
		return 0
	}
	return c.HiddenSize / c.Heads
}

func (c *Config) rope() Rope {
	switch {
	case c.RopeParameters != nil:
		return *c.RopeParameters
	case c.RopeScaling != nil:
		return *c.RopeScaling
	}
	return Rope{}
}

func (c *Config) ropeType() string {
	r := c.rope()
	if r.Type != "" {
		return r.Type
	}
	return r.LegacyType
}

// ropeTheta is the base of the rotation, and whether the checkpoint states one.
func (c *Config) ropeTheta() (theta float64, stated bool) {
	if t := c.rope().Theta; t != nil {
		return *t, true
	}
	if c.RopeTheta != nil {
		return *c.RopeTheta, true
	}
	return 10000, false
}

// dim gives the length of a named dimension.
func (c *Config) dim(d Dim) int64 {
	switch d {
	case Vocab:
		return c.VocabSize
	case Hidden:
		return c.HiddenSize
	case Inner:
		return c.InnerSize
	case QueryDim:
		return c.Heads * c.headDim()
	case KeyDim:
		return c.kvHeads() * c.headDim()
	case HalfHead:
		return c.headDim() / 2
	}
	return 0
}

// readJSON reads a JSON file of the snapshot into v and returns its bytes. A
// key that stands twice is refused: readers differ in which one they take.
func readJSON(fsys fs.FS, name string, v any) ([]byte, error) {
	body, err := readFile(fsys, name, maxJSON)
	if err != nil {
		return nil, err
	}
	if _, err := jsoncanonicalizer.Transform(body); err != nil {
		return nil, fmt.Errorf("%s: not usable JSON: %w", name, err)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return body, nil
}

// readFile reads a whole file of at most limit bytes.
func readFile(fsys fs.FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	body, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if int64(len(body)) > limit {
		return nil, fmt.Errorf("%s: got more than %d bytes, want at most that", name, limit)
	}
	return body, nil
}
