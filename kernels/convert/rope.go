package convert

import (
	"fmt"
	"math"
	"slices"
)

// Rope is the RoPE part of config.json.
type Rope struct {
	Type          string    `json:"rope_type"`
	LegacyType    string    `json:"type"`
	Theta         *float64  `json:"rope_theta"`
	Factor        *float64  `json:"factor"`
	LowFreq       *float64  `json:"low_freq_factor"`
	HighFreq      *float64  `json:"high_freq_factor"`
	OldPositions  *float64  `json:"original_max_position_embeddings"`
	Partial       *float64  `json:"partial_rotary_factor"`
	Extrapolation *float64  `json:"extrapolation_factor"`
	Attention     *float64  `json:"attention_factor"`
	LegacyAttn    *float64  `json:"attn_factor"`
	BetaFast      *float64  `json:"beta_fast"`
	BetaSlow      *float64  `json:"beta_slow"`
	Long          []float64 `json:"long_factor"`
	Short         []float64 `json:"short_factor"`
}

// ropeFields is rope_scaling or rope_parameters: one set of fields, or one for
// each kind of layer.
type ropeFields struct {
	Rope
	Full    *Rope `json:"full_attention"`
	Sliding *Rope `json:"sliding_attention"`
}

// resolveRope brings the spellings together: rope_parameters goes before
// rope_scaling, a field inside before one of the same name at the top.
func (c *Config) resolveRope() error {
	fields := c.RopeParameters
	if fields == nil {
		fields = c.RopeScaling
	}
	if fields == nil {
		fields = &ropeFields{}
	}
	if fields.Full != nil || fields.Sliding != nil {
		if fields.Full == nil {
			return fmt.Errorf("config.json: rope_parameters: got no full_attention, want one beside sliding_attention")
		}
		c.rope, c.LocalTheta = *fields.Full, nil
		if fields.Sliding != nil {
			c.LocalTheta = fields.Sliding.Theta
			if t := fields.Sliding.kind(); t != "" && t != "default" {
				return fmt.Errorf("config.json: rope_parameters: sliding_attention: rope_type: got %q, want default: GGUF holds no scaling of those layers", t)
			}
		}
		return nil
	}
	c.rope = fields.Rope
	for _, f := range []struct {
		inside **float64
		top    *float64
	}{{&c.rope.Theta, c.RopeTheta}, {&c.rope.Partial, c.PartialRotary}, {&c.rope.OldPositions, c.OldPositions}} {
		if *f.inside == nil {
			*f.inside = f.top
		}
	}
	return nil
}

func (r *Rope) kind() string {
	if r.Type != "" {
		return r.Type
	}
	return r.LegacyType
}

func (c *Config) ropeType() string { return c.rope.kind() }

// scaled tells that there is RoPE scaling.
func (c *Config) scaled() bool { return c.ropeType() != "" && c.ropeType() != "default" }

// checkRope refuses scaling that the GGUF of this architecture would not hold.
func (c *Config) checkRope() error {
	a, r := c.architecture, c.rope
	if t := c.ropeType(); c.scaled() && !slices.Contains(a.Scaling, t) {
		return fmt.Errorf("config.json: rope_type: got %q, want default or one of %q: the GGUF of %s holds no other RoPE scaling, and leaving it out would change every position", t, a.Scaling, a.HF)
	}
	for _, f := range []struct {
		name string
		v    *float64
	}{
		{"rope_theta", r.Theta}, {"rope_local_base_freq", c.LocalTheta}, {"factor", r.Factor}, {"low_freq_factor", r.LowFreq}, {"high_freq_factor", r.HighFreq},
		{"original_max_position_embeddings", r.OldPositions}, {"attention_factor", r.Attention}, {"attn_factor", r.LegacyAttn},
		{"beta_fast", r.BetaFast}, {"beta_slow", r.BetaSlow},
	} {
		if f.v != nil && !positive(*f.v) {
			return fmt.Errorf("config.json: %s: got %v, want a number above 0", f.name, *f.v)
		}
	}
	if p := r.Partial; p != nil && !(*p > 0 && *p <= 1) {
		return fmt.Errorf("config.json: partial_rotary_factor: got %v, want above 0, at most 1", *p)
	}
	if r.Partial != nil && *r.Partial != 1 && a.GGUF != "phi3" {
		return fmt.Errorf("config.json: partial_rotary_factor: got %v, want 1: the GGUF of %s rotates whole heads", *r.Partial, a.HF)
	}
	if theta, stated := c.ropeTheta(); stated && theta != defaultTheta && !slices.Contains(a.Keys, "rope.freq_base") {
		return fmt.Errorf("config.json: rope_theta: got %v, want %v: the GGUF of %s does not hold it", theta, defaultTheta, a.HF)
	}
	switch c.ropeType() {
	case "linear", "yarn":
		if r.Factor == nil {
			return fmt.Errorf("config.json: factor: got none, want the factor of %s RoPE scaling", c.ropeType())
		}
	}
	if (c.ropeType() == "yarn" || a.GGUF == "phi3") && (r.OldPositions == nil || *r.OldPositions < 2 || *r.OldPositions > math.MaxInt32 || *r.OldPositions != math.Trunc(*r.OldPositions)) {
		return fmt.Errorf("config.json: original_max_position_embeddings: got %s, want a whole number from 2 to %d", shown(r.OldPositions), math.MaxInt32)
	}
	return c.checkLongRope()
}

func (c *Config) checkLongRope() error {
	if a := c.architecture; a.GGUF != "phi3" || !c.scaled() {
		if len(c.rope.Long)+len(c.rope.Short) > 0 {
			return fmt.Errorf("config.json: long_factor, short_factor: got %d and %d numbers, want none without longrope scaling", len(c.rope.Long), len(c.rope.Short))
		}
		return nil
	}
	want := c.rotated() / 2
	for name, list := range map[string][]float64{"long_factor": c.rope.Long, "short_factor": c.rope.Short} {
		if int64(len(list)) != want {
			return fmt.Errorf("config.json: %s: got %d numbers, want %d: one for each rotation of a head", name, len(list), want)
		}
		for _, f := range list {
			if !positive(f) {
				return fmt.Errorf("config.json: %s: got %v, want numbers above 0", name, f)
			}
		}
	}
	return nil
}

// defaultTheta is what every reader of GGUF takes for a base that is not there.
const defaultTheta = 10000.0

// ropeTheta is the base of the rotation, and whether the checkpoint gives one.
func (c *Config) ropeTheta() (theta float64, stated bool) {
	if c.rope.Theta != nil {
		return *c.rope.Theta, true
	}
	return defaultTheta, false
}

// rotated is the number of dimensions of a head that are rotated.
func (c *Config) rotated() int64 {
	if c.architecture.GGUF == "phi3" {
		return int64(or(c.rope.Partial, 1)*float64(c.HiddenSize)) / c.Heads
	}
	return c.headDim()
}

// attentionFactor is what longrope scaling multiplies attention by; ok is false without such scaling.
func (c *Config) attentionFactor() (factor float64, ok bool) {
	if len(c.rope.Long) == 0 || c.rope.OldPositions == nil {
		return 0, false
	}
	scale := float64(c.Positions) / *c.rope.OldPositions
	if scale <= 1 {
		return 1, true
	}
	return math.Sqrt(1 + math.Log(scale)/math.Log(*c.rope.OldPositions)), true
}

// ropeFactors computes rope_freqs.weight of llama3 RoPE scaling: for each
// rotation the number by which its frequency is divided. It returns nil when
// the checkpoint has no such scaling. The steps are rounded as the converter's
// float32 tensors are; its pow is float32, so results may differ in the last bits.
func (c *Config) ropeFactors() []float32 {
	if c.ropeType() != "llama3" {
		return nil
	}
	r := c.rope
	theta, _ := c.ropeTheta()
	factor, low, high := or(r.Factor, 8), or(r.LowFreq, 1), or(r.HighFreq, 4)
	old := or(r.OldPositions, 8192)
	factors := make([]float32, 0, c.headDim()/2)
	for i := int64(0); i < c.headDim(); i += 2 {
		exponent := float32(i) / float32(c.headDim())
		freq := 1 / float32(math.Pow(theta, float64(exponent)))
		wavelength := float32(float32(1/freq) * float32(2*math.Pi))
		switch {
		case float64(wavelength) < old/high:
			factors = append(factors, 1)
		case float64(wavelength) > old/low:
			factors = append(factors, float32(factor))
		default:
			smooth := float32(float32(float32(float32(1/wavelength)*float32(old))-float32(low)) / float32(high-low))
			factors = append(factors, 1/float32(float32(float32(1-smooth)/float32(factor))+smooth))
		}
	}
	return factors
}

func or(p *float64, otherwise float64) float64 {
	if p != nil {
		return *p
	}
	return otherwise
}
