package evaluate

import (
	"context"
	"encoding/json"

	"github.com/weighmaster/weighmaster/kernels"
)

// limits says what fixtures do not show.
func limits() []kernels.Limit {
	return []kernels.Limit{
		{What: "chat templates are not rendered: the fixture carries the rendered prompt, and messages beside it are not looked at", Probe: func(ctx context.Context) error {
			return kernels.Unseen(runSample(ctx, func(f *Fixture) { f.Messages = json.RawMessage(`[{"role": "user", "content": "another question"}]`) }))
		}},
		{What: "a fixture shows what was asked, not what a model can do: a book of answers passes", Probe: func(ctx context.Context) error {
			return kernels.Unseen(runSample(ctx, func(*Fixture) {}))
		}},
	}
}
