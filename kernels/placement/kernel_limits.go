package placement

import (
	"context"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
)

// kernelLimits is what a log cannot show.
func kernelLimits() []kernels.Limit {
	return []kernels.Limit{
		{What: "a log is the tool's word: what it does not print is not known, and memory is not looked into", Probe: func(ctx context.Context) error {
			return kernels.Unseen(Inspect(ctx, []byte(strings.ReplaceAll(sampleLog, "CUDA1", "CUDA0")), sampleWant()))
		}},
		{What: "sizes are printed to 0.01 MiB: tensors smaller than 5243 bytes a buffer can be missing unseen", Probe: func(ctx context.Context) error {
			want := sampleWant()
			want.Bytes += 2000
			return kernels.Unseen(Inspect(ctx, []byte(sampleLog), want))
		}},
		{What: "more bytes than the model has are no fault: tied embeddings are kept twice, and mapped ranges can overlap", Probe: func(ctx context.Context) error {
			return kernels.Unseen(Inspect(ctx, []byte(strings.Replace(sampleLog, "4.00 MiB", "6.00 MiB", 1)), sampleWant()))
		}},
		{What: "caches and compute buffers hold no weights: theirs may lie anywhere", Probe: func(ctx context.Context) error {
			return kernels.Unseen(Inspect(ctx, []byte(strings.Replace(sampleLog, "CUDA1 KV", "CPU KV", 1)), sampleWant()))
		}},
	}
}
