package convert

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"

	"github.com/weighmaster/weighmaster/kernels/strictjson"
)

// maxJSON bounds each JSON file of a snapshot, in bytes. Large vocabularies reach 20 MB.
const maxJSON = 64 << 20

// jsonLimits are far above what the files of known models have.
var jsonLimits = strictjson.Limits{Depth: 64, Members: 1 << 22, Elements: 1 << 22}

// maxHeadDim bounds the head dimension; known models have up to 512.
const maxHeadDim = 1 << 16

// maxExperts bounds the number of experts; known models have up to 512.
const maxExperts = 1 << 16

// Config is config.json of a checkpoint, as far as weights and GGUF metadata
// depend on it. Fields that the file leaves out have the values that Hugging
// Face transformers gives them, where it gives any: see [Architecture].
type Config struct {
	Architectures   []string        `json:"architectures"`
	HiddenSize      int64           `json:"hidden_size"`
	InnerSize       int64           `json:"intermediate_size"`
	ExpertInnerSize int64           `json:"moe_intermediate_size"`
	Layers          int64           `json:"num_hidden_layers"`
	Heads           int64           `json:"num_attention_heads"`
	KVHeads         *int64          `json:"num_key_value_heads"` // nil: as many as query heads
	HeadDim         *int64          `json:"head_dim"`            // nil: hidden size / heads
	VocabSize       int64           `json:"vocab_size"`
	Positions       int64           `json:"max_position_embeddings"`
	RMSNormEpsilon  float64         `json:"rms_norm_eps"`
	RopeTheta       *float64        `json:"rope_theta"` // nil: 10000
	LocalTheta      *float64        `json:"rope_local_base_freq"`
	RopeScaling     *ropeFields     `json:"rope_scaling"`
	RopeParameters  *ropeFields     `json:"rope_parameters"` // newer spelling, holds theta too
	OldPositions    *float64        `json:"original_max_position_embeddings"`
	PartialRotary   *float64        `json:"partial_rotary_factor"`
	Activation      string          `json:"hidden_act"`
	Activation2     string          `json:"hidden_activation"` // Gemma's; goes before hidden_act
	LocalExperts    *int64          `json:"num_local_experts"`
	NumExperts      *int64          `json:"num_experts"`
	ExpertsUsed     *int64          `json:"num_experts_per_tok"`
	SparseStep      *int64          `json:"decoder_sparse_step"`
	DenseLayers     []int64         `json:"mlp_only_layers"`
	SlidingWindow   *int64          `json:"sliding_window"`
	WindowPattern   *int64          `json:"sliding_window_pattern"`
	AttentionCap    *float64        `json:"attn_logit_softcapping"`
	FinalCap        *float64        `json:"final_logit_softcapping"`
	Quantization    json.RawMessage `json:"quantization_config"`
	TieEmbeddings   bool            `json:"tie_word_embeddings"`

	architecture  *Architecture
	rope          Rope           // of the layers that see everything
	specialTokens map[string]any // every key of the file as it stands: bos_token_id and the like are looked up here
	fields        map[string]any // the keys of the language model: those of text_config where there are other parts
}

// ReadConfig reads and checks config.json. A kind of checkpoint without a
// mapping gives an [*UnknownArchitectureError]. What the conversion would lose
// or does not cover is refused by name: quantized checkpoints, other activations,
// RoPE scaling of a kind that does not reach the GGUF of this architecture.
func ReadConfig(fsys fs.FS) (Config, error) {
	var c Config
	body, err := readJSON(fsys, "config.json", &c)
	if err != nil {
		return Config{}, err
	}
	if err := json.Unmarshal(body, &c.specialTokens); err != nil {
		return Config{}, fmt.Errorf("config.json: %w", err)
	}
	if len(c.Architectures) != 1 {
		return Config{}, fmt.Errorf("config.json: architectures: got %q, want exactly one", c.Architectures)
	}
	if c.architecture, err = architectureOf(c.Architectures[0]); err != nil {
		return Config{}, err
	}
	if err := c.language(body); err != nil {
		return Config{}, err
	}
	if err := c.fill(); err != nil {
		return Config{}, err
	}
	return c, c.check()
}

// language reads the fields of the language model over those of the whole.
func (c *Config) language(body []byte) error {
	if c.fields = c.specialTokens; len(c.architecture.Parts) == 0 {
		return nil
	}
	var whole struct {
		Text json.RawMessage `json:"text_config"`
	}
	if err := json.Unmarshal(body, &whole); err != nil {
		return fmt.Errorf("config.json: %w", err)
	}
	if !set(whole.Text) {
		return fmt.Errorf("config.json: text_config: got none, want the language model's fields, as %s has them", c.architecture.HF)
	}
	architectures := c.Architectures
	err := json.Unmarshal(whole.Text, c)
	if c.fields = nil; err == nil {
		err = json.Unmarshal(whole.Text, &c.fields)
	}
	if err != nil {
		return fmt.Errorf("config.json: text_config: %w", err)
	}
	c.Architectures = architectures
	return nil
}

// fill gives fields that the file leaves out the values of transformers.
func (c *Config) fill() error {
	added := map[string]any{}
	for key, value := range c.architecture.Unstated {
		if _, stated := c.fields[key]; !stated {
			added[key] = value
		}
	}
	body, err := json.Marshal(added)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, c); err != nil {
		return err
	}
	return c.resolveRope()
}

// stated tells whether config.json itself has a value for a field.
func (c *Config) stated(key string) bool { return c.fields[key] != nil }

// Architecture is the kind of the checkpoint.
func (c *Config) Architecture() *Architecture { return c.architecture }

func (c *Config) activation() string {
	if c.Activation2 != "" {
		return c.Activation2
	}
	return c.Activation
}

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

// experts is the number of experts in a layer, 0 for none.
func (c *Config) experts() int64 {
	if c.LocalExperts != nil {
		return *c.LocalExperts
	}
	if c.NumExperts != nil {
		return *c.NumExperts
	}
	return 0
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
	case HeadDim:
		return c.headDim()
	case HalfHead:
		return c.headDim() / 2
	case FusedDim:
		return (c.Heads + 2*c.kvHeads()) * c.headDim()
	case GateUp:
		return 2 * c.InnerSize
	case Experts:
		return c.experts()
	case ExpertInner:
		return c.ExpertInnerSize
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
	if err := strictjson.Check(body, jsonLimits); err != nil {
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
