// Package evaluate runs fixtures on a model: prompts with known answers,
// answered greedily and judged.
//
// A fixture passes when all of this holds: our tokenizer encodes the prompt
// text to exactly the fixture's ids; the answer ended with a stopping id and not
// at the limit; the answer's text is the expected one. Every other outcome is a
// finding with its reason.
//
// Metrics: fixtures_total and fixtures_passed (fixtures) for each kind and
// language, retrieval also for each prompt length (identity tokens: the number of
// ids that the model was really given); min_margin (logits): the smallest
// distance of the best to the second-best logit over everything generated.
//
// Reference: the rules above; fixtures.v1.json describes the file.
package evaluate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/llama"
)

// Model answers prompts. [llama.Model] is one.
type Model interface {
	Generate(ctx context.Context, prompt []uint32, limit int, stop func(uint32) bool) (llama.Generation, error)
	// Stop says whether an id ends a response.
	Stop(id uint32) bool
}

// Tokenizer encodes and decodes texts.
type Tokenizer interface {
	Encode(text string, addSpecial bool) []uint32
	Decode(ids []uint32, skipSpecial bool) (string, error)
}

// Perturbed makes a copy of the model under test with a fault against one token.
type Perturbed func(token uint32) (Model, error)

// How a response ended.
const (
	StopEnd   = "end"   // with a stopping id
	StopLimit = "limit" // at max_new_tokens: never a pass
	StopError = "error" // there is no whole response
)

// Outcome is what happened with one fixture.
type Outcome struct {
	ID        string    `json:"id"`
	Kind      string    `json:"kind"`
	Language  string    `json:"language"`
	PromptIDs []uint32  `json:"prompt_ids"` // what our tokenizer gave and the model got
	IDs       []uint32  `json:"ids"`        // generated, the stopping id included
	Text      string    `json:"text"`       // of ids, without the stopping one
	Margins   []float64 `json:"margins"`    // logits: best minus second best, one for each of ids
	Stop      string    `json:"stop"`       // end, limit or error
	Error     string    `json:"error,omitempty"`
	Passed    bool      `json:"passed"`
}

// Result is the record of a whole run, in the fixtures' order.
type Result struct {
	Outcomes []Outcome `json:"outcomes"`
}

// Passed counts the fixtures that passed.
func (r Result) Passed() int {
	n := 0
	for _, o := range r.Outcomes {
		if o.Passed {
			n++
		}
	}
	return n
}

// Run answers every fixture and judges it. Perturbed may be nil: the control
// that needs a faulty model is then not planted, and the report says so by missing it.
func Run(ctx context.Context, m Model, tok Tokenizer, fixtures Fixtures, perturbed Perturbed) (Result, kernels.Report, error) {
	r := Kernel().NewReport()
	result := Result{Outcomes: []Outcome{}}
	for _, f := range fixtures.Fixtures {
		o, err := answer(ctx, m, tok, f)
		if err != nil {
			return result, r, fmt.Errorf("evaluate: fixture %s: %w", f.ID, err)
		}
		found := judge(f, o)
		o.Passed = len(found) == 0
		for _, x := range found {
			r.Find(x)
		}
		result.Outcomes = append(result.Outcomes, o)
	}
	r.Metrics = metrics(result)
	p := planter{ctx, m, tok, perturbed, &r.Controls}
	if err := p.plant(fixtures, result); err != nil {
		return result, r, err
	}
	return result, r, r.Finish()
}

// answer runs one fixture. A model or text that gives no answer is an outcome;
// only a cancelled run is an error.
func answer(ctx context.Context, m Model, tok Tokenizer, f Fixture) (Outcome, error) {
	o := Outcome{ID: f.ID, Kind: f.Kind, Language: f.Language, PromptIDs: tok.Encode(f.Prompt, false), IDs: []uint32{}, Margins: []float64{}, Stop: StopError}
	g, err := m.Generate(ctx, o.PromptIDs, f.MaxNewTokens, m.Stop)
	if ctx.Err() != nil {
		return o, ctx.Err()
	}
	o.IDs, o.Margins = append(o.IDs, g.IDs...), append(o.Margins, g.Margins...)
	if err != nil {
		o.Error = err.Error()
		return o, nil
	}
	said := g.IDs
	if g.Stopped {
		said = said[:len(said)-1]
	}
	if o.Text, err = tok.Decode(said, false); err != nil {
		o.Error = err.Error()
		return o, nil
	}
	o.Stop = StopLimit
	if g.Stopped {
		o.Stop = StopEnd
	}
	return o, nil
}

func metrics(r Result) []kernels.Metric {
	type group struct{ kind, language, tokens string }
	var order []group
	total, passed := map[group]int{}, map[group]int{}
	margin := math.Inf(1)
	for _, o := range r.Outcomes {
		g := group{o.Kind, o.Language, ""}
		if o.Kind == "retrieval" {
			g.tokens = strconv.Itoa(len(o.PromptIDs))
		}
		if total[g] == 0 {
			order = append(order, g)
		}
		total[g]++
		if o.Passed {
			passed[g]++
		}
		margin = min(margin, slices.Min(append(slices.Clone(o.Margins), math.Inf(1))))
	}
	var list []kernels.Metric
	for _, g := range order {
		id := map[string]string{"kind": g.kind, "language": g.language}
		if g.tokens != "" {
			id["tokens"] = g.tokens
		}
		list = append(list,
			kernels.Metric{Name: "fixtures_total", Unit: "fixtures", Value: float64(total[g]), Identity: id},
			kernels.Metric{Name: "fixtures_passed", Unit: "fixtures", Value: float64(passed[g]), Identity: id})
	}
	if !math.IsInf(margin, 1) {
		list = append(list, kernels.Metric{Name: "min_margin", Unit: "logits", Value: margin})
	}
	return list
}
