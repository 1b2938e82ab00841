package llama

import (
	"fmt"
	"math"
)

// Config is the shape of one Llama model.
type Config struct {
	Layers, Hidden, Heads, KVHeads, HeadDim, FFN int
	Vocab                                        int     // rows of the embedding, padding included
	Context                                      int     // positions that the model declares
	Eps                                          float64 // of RMSNorm; a float32 value, as GGUF and float32 engines hold it
	Theta                                        float64 // RoPE base; a float32 value
	// FreqFactors divide the RoPE frequencies (llama3 scaling); HeadDim/2 values, nil for none.
	FreqFactors []float64
	Tied        bool     // the head is the embedding
	EOS         []uint32 // ids that end a response
}

// Caps keep a hostile config from asking for absurd amounts of memory or overflowing a product.
const (
	maxLayers  = 1 << 10
	maxWidth   = 1 << 18 // hidden, feed-forward, heads·dim
	maxVocab   = 1 << 22
	maxContext = 1 << 27
)

func (c Config) validate() error {
	for _, f := range []struct {
		name     string
		v, limit int
	}{
		{"layers", c.Layers, maxLayers}, {"hidden size", c.Hidden, maxWidth}, {"heads", c.Heads, maxWidth},
		{"key/value heads", c.KVHeads, maxWidth}, {"head size", c.HeadDim, maxWidth}, {"feed-forward size", c.FFN, maxWidth},
		{"vocabulary", c.Vocab, maxVocab}, {"context length", c.Context, maxContext},
	} {
		if f.v < 1 || f.v > f.limit {
			return fmt.Errorf("llama: config: %s: got %d, want 1 to %d", f.name, f.v, f.limit)
		}
	}
	switch {
	case c.Vocab < 2:
		return fmt.Errorf("llama: config: vocabulary: got %d, want at least 2, else nothing is chosen", c.Vocab)
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("llama: config: got %d heads over %d key/value heads, want a multiple", c.Heads, c.KVHeads)
	case c.HeadDim%2 != 0:
		return fmt.Errorf("llama: config: head size: got %d, want an even number for rotary positions", c.HeadDim)
	case c.Heads*c.HeadDim > maxWidth:
		return fmt.Errorf("llama: config: got %d heads of %d, want at most %d values", c.Heads, c.HeadDim, maxWidth)
	case !(c.Eps > 0 && c.Eps < 1):
		return fmt.Errorf("llama: config: RMSNorm epsilon: got %v, want between 0 and 1", c.Eps)
	case !(c.Theta >= 1 && c.Theta < math.MaxFloat32):
		return fmt.Errorf("llama: config: rope theta: got %v, want at least 1", c.Theta)
	case c.FreqFactors != nil && len(c.FreqFactors) != c.HeadDim/2:
		return fmt.Errorf("llama: config: rope frequency factors: got %d, want %d, half a head", len(c.FreqFactors), c.HeadDim/2)
	}
	for i, f := range c.FreqFactors {
		if !(f > 0 && f < math.MaxFloat32) {
			return fmt.Errorf("llama: config: rope frequency factor %d: got %v, want a positive number", i, f)
		}
	}
	for _, id := range c.EOS {
		if int(id) >= c.Vocab {
			return fmt.Errorf("llama: config: end-of-sequence id: got %d, want below the vocabulary of %d", id, c.Vocab)
		}
	}
	return nil
}
