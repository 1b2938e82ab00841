package safetensors

import (
	"bytes"
	"context"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
)

// kernelLimits is what the inspection of the structure does not look at.
func kernelLimits() []kernels.Limit {
	return []kernels.Limit{
		{What: "tensor data is not read: NaN and Inf are not looked at", Probe: func(ctx context.Context) error {
			folder := sample()
			for name, file := range folder {
				if strings.HasSuffix(name, ".safetensors") {
					folder[name] = append(bytes.Clone(file[:len(file)-2]), 0xFF, 0xFF)
				}
			}
			return kernels.Unseen(InspectSnapshot(ctx, folder, nil))
		}},
		{What: "shapes are compared with config.json for LlamaForCausalLM; of other architectures and of packed matrices tensors and parameters are only counted", Probe: func(ctx context.Context) error {
			config := sampleConfig()
			config.Architectures, config.HiddenSize = []string{"UnheardOfForCausalLM"}, 999
			return kernels.Unseen(InspectSnapshot(ctx, sample(), config))
		}},
	}
}
