package convert

import "math"

// ropeFactors computes rope_freqs.weight of llama3 RoPE scaling: for each
// rotation the number by which its frequency is divided. It returns nil when
// the checkpoint has no such scaling. The steps are rounded as the converter's
// float32 tensors are; its pow is float32, so results may differ in the last bits.
func (c *Config) ropeFactors() []float32 {
	if c.ropeType() != "llama3" {
		return nil
	}
	r := c.rope()
	theta, _ := c.ropeTheta()
	factor, low, high := or(r.Factor, 8), or(r.LowFreq, 1), or(r.HighFreq, 4)
	old := or(r.OldPositions, or(c.OldPositions, 8192))
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
