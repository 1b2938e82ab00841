package gguf

import (
	"bytes"
	"context"

	"github.com/weighmaster/weighmaster/kernels"
)

// kernelLimits is what the inspection of the structure does not look at or does not read.
func kernelLimits() []kernels.Limit {
	return []kernels.Limit{
		{What: "tensor data is not read: NaN, ranges and scales are not looked at", Probe: func(ctx context.Context) error {
			b := sample()
			copy(b[len(b)-32:], bytes.Repeat([]byte{0xFF}, 20)) // the norm's floats before the final padding
			return kernels.Unseen(Inspect(ctx, bytes.NewReader(b), int64(len(b)), "built-in file"))
		}},
		{What: "parts after the first need not say which model they are of: those of two models with the same names, shapes and counts pass", Probe: func(ctx context.Context) error {
			pair := samplePair()
			other := samplePart(1, 2, 2, "output_norm.weight") // of another model, which nothing says
			return kernels.Unseen(InspectSplit(ctx, []Part{pair[0], other}))
		}},
		{What: "version 1 is refused by name", Probe: func(ctx context.Context) error {
			b := sample()
			b[4] = 1
			r, err := Inspect(ctx, bytes.NewReader(b), int64(len(b)), "built-in file")
			return kernels.Refuses(r, err, "version")
		}},
	}
}
