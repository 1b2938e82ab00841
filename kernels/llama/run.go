package llama

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Logits gives each with the logits of every position of each text in turn,
// row-major [len(text), Vocab], not normalised; row i predicts token i+1.
// Every layer is read once for all texts. Memory: the states of all texts and the logits of one.
func (m *Model) Logits(ctx context.Context, texts [][]uint32, each func(text int, logits []float64) error) error {
	states := make([][]float64, len(texts))
	for i, ids := range texts {
		if err := m.check(ids); err != nil {
			return fmt.Errorf("text %d: %w", i, err)
		}
		var err error
		if states[i], err = m.states(ids); err != nil {
			return err
		}
	}
	var scratch layer
	for i := range m.cfg.Layers {
		l, err := m.layer(i, &scratch)
		if err != nil {
			return err
		}
		for t := range states {
			if err := ctx.Err(); err != nil {
				return err
			}
			states[t] = m.forward(l, &cache{}, states[t], 0, false)
		}
	}
	for t := range states {
		if err := ctx.Err(); err != nil {
			return err
		}
		y, err := m.logits(states[t])
		if err != nil {
			return err
		}
		if err := each(t, y); err != nil {
			return err
		}
		states[t] = nil
	}
	return nil
}

// Generation is one greedy answer.
type Generation struct {
	IDs     []uint32  // generated ids, the stopping one included
	Margins []float64 // best minus second-best logit at each id
	Stopped bool      // ended by a stopping id, not by the limit
}

// ErrNotFinite reports a NaN or an infinity among the logits: nothing is chosen from such a row.
var ErrNotFinite = errors.New("logits are not finite")

// Generate answers a prompt greedily: the largest logit over the whole
// vocabulary, the smaller id at a tie. It ends after an id that stop accepts, or after limit ids.
func (m *Model) Generate(ctx context.Context, prompt []uint32, limit int, stop func(uint32) bool) (Generation, error) {
	var g Generation
	if err := m.check(prompt); err != nil {
		return g, err
	}
	if limit < 1 || limit > m.cfg.Context-len(prompt) {
		return g, fmt.Errorf("llama: limit: got %d ids after a prompt of %d, want at least 1 and no more than the context of %d holds", limit, len(prompt), m.cfg.Context)
	}
	caches := make([]cache, m.cfg.Layers)
	for ids, at := prompt, 0; ; {
		row, err := m.next(ctx, caches, ids, at)
		if err != nil {
			return g, err
		}
		id, margin, err := best(row)
		if err != nil {
			return g, fmt.Errorf("llama: position %d: %w", at+len(ids)-1, err)
		}
		g.IDs, g.Margins = append(g.IDs, id), append(g.Margins, margin)
		if stop(id) {
			g.Stopped = true
			return g, nil
		}
		if len(g.IDs) == limit {
			return g, nil
		}
		at += len(ids)
		ids = []uint32{id}
	}
}

// Stop says whether an id ends a response, by the model's own configuration.
func (m *Model) Stop(id uint32) bool { return slices.Contains(m.cfg.EOS, id) }

// next gives the logits after ids, the first of which stands at position at.
func (m *Model) next(ctx context.Context, caches []cache, ids []uint32, at int) ([]float64, error) {
	x, err := m.states(ids)
	if err != nil {
		return nil, err
	}
	var scratch layer
	for i := range caches {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		l, err := m.layer(i, &scratch)
		if err != nil {
			return nil, err
		}
		x = m.forward(l, &caches[i], x, at, i == len(caches)-1)
	}
	return m.logits(x)
}

// best refuses a row that is not finite before it chooses anything from it.
func best(row []float64) (id uint32, margin float64, err error) {
	for i, v := range row {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return 0, 0, fmt.Errorf("logit of id %d is %v: %w", i, v, ErrNotFinite)
		}
	}
	first, second := 0, -1
	for i := 1; i < len(row); i++ {
		switch {
		case row[i] > row[first]:
			first, second = i, first
		case second < 0 || row[i] > row[second]:
			second = i
		}
	}
	return uint32(first), row[first] - row[second], nil
}
