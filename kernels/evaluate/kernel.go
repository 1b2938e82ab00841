package evaluate

import (
	"context"
	"errors"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/llama"
)

// Kernel describes this kernel.
func Kernel() kernels.Kernel {
	return kernels.Kernel{
		Name: "evaluate", Version: "1.0.0", Spec: FixturesSchema,
		Summary: "fixtures: prompts with known answers, decoded greedily in float64 and judged",
		Limits:  limits(),
		Gates:   []kernels.Gate{{Metric: "fixtures_total", Unit: "fixtures", Compare: kernels.AtLeast, Value: 1}},
		Faults:  []string{faultAnswer, faultCut, faultPrompt, faultModel},
		SelfCheck: func(ctx context.Context) (kernels.Report, error) {
			return runSample(ctx, func(*Fixture) {})
		},
	}
}

// runSample answers the built-in fixtures, the first of them changed, from a book.
func runSample(ctx context.Context, change func(*Fixture)) (kernels.Report, error) {
	fixtures := Fixtures{FixturesSchema, []Fixture{
		{ID: "sample-1", Kind: "arithmetic", Language: "en", Prompt: "2 + 2", PromptIDs: []uint32{50, 32, 43, 32, 50}, PromptTokens: 5, MaxNewTokens: 4, Expect: Expect{"exact", "4"}},
		{ID: "sample-2", Kind: "retrieval", Language: "en", Prompt: "K=X?", PromptIDs: []uint32{75, 61, 88, 63}, PromptTokens: 4, MaxNewTokens: 16, Expect: Expect{"contains", "X"}},
	}}
	change(&fixtures.Fixtures[0])
	m := book{"2 + 2": "4", "K=X?": "it is X"}
	_, r, err := Run(ctx, m, bytesTokenizer{}, fixtures, func(uint32) (Model, error) { return book{"2 + 2": "5", "K=X?": "5"}, nil })
	return r, err
}

// book is a model of the built-in sample: it looks its answers up.
type book map[string]string

func (b book) Generate(_ context.Context, prompt []uint32, limit int, stop func(uint32) bool) (llama.Generation, error) {
	text, err := bytesTokenizer{}.Decode(prompt, false)
	if err != nil {
		return llama.Generation{}, err
	}
	said, ok := b[text]
	if !ok {
		return llama.Generation{}, errors.New("the built-in sample has no answer to " + text)
	}
	g := llama.Generation{IDs: append(bytesTokenizer{}.Encode(said, false), 0)}
	if len(g.IDs) > limit {
		g.IDs = g.IDs[:limit]
	}
	for range g.IDs {
		g.Margins = append(g.Margins, 1)
	}
	g.Stopped = stop(g.IDs[len(g.IDs)-1])
	return g, nil
}

func (book) Stop(id uint32) bool { return id == 0 }

// bytesTokenizer is the tokenizer of the built-in sample: one id a byte.
type bytesTokenizer struct{}

func (bytesTokenizer) Encode(text string, _ bool) []uint32 {
	var ids []uint32
	for _, b := range []byte(text) {
		ids = append(ids, uint32(b))
	}
	return ids
}

func (bytesTokenizer) Decode(ids []uint32, _ bool) (string, error) {
	var s strings.Builder
	for _, id := range ids {
		if id > 255 {
			return "", errors.New("no such byte")
		}
		s.WriteByte(byte(id))
	}
	return s.String(), nil
}
