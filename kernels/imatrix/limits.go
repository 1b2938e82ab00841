package imatrix

import (
	"bytes"
	"context"
	"fmt"

	"github.com/weighmaster/weighmaster/kernels"
)

// kernelLimits is what the inspection of a matrix cannot see or lets pass.
func kernelLimits() []kernels.Limit {
	return []kernels.Limit{
		{What: "the calibration text is a name and not a digest: whether the numbers come from it is not seen", Probe: func(ctx context.Context) error {
			c := sampleContent()
			c.Datasets = []string{"another text"}
			return kernels.Unseen(inspectContent(ctx, c))
		}},
		{What: "numbers that could be a model's are not recomputed: the matrix of another text passes", Probe: func(ctx context.Context) error {
			c := sampleContent()
			c.Entries[0].Sums[0] *= 2
			return kernels.Unseen(inspectContent(ctx, c))
		}},
		{What: fmt.Sprintf("single columns of zeros pass, as dead channels have them; a whole block of %d does not", ZeroBlock), Probe: func(ctx context.Context) error {
			c := sampleContent()
			c.Entries[0].Sums[0] = 0
			return kernels.Unseen(inspectContent(ctx, c))
		}},
		{What: "without a model's tensors nothing is compared with a model", Probe: func(ctx context.Context) error {
			c := sampleContent()
			c.Entries = c.Entries[:1]
			b := encode(c)
			return kernels.Unseen(Inspect(ctx, bytes.NewReader(b), int64(len(b)), "built-in matrix", nil))
		}},
	}
}

func inspectContent(ctx context.Context, c Content) (kernels.Report, error) {
	b := encode(c)
	_, tensors := sample()
	return Inspect(ctx, bytes.NewReader(b), int64(len(b)), "built-in matrix", tensors)
}
