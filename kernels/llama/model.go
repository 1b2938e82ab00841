package llama

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Model runs the forward pass over one Source. It is not safe for concurrent
// use; each call uses all processors by itself.
type Model struct {
	cfg  Config
	src  Source
	rope *rope
	norm []float64
	// Set only for a model that is held in memory.
	layers      []*layer
	embed, head []float64
}

// Stream makes a model that reads a layer at a time, each time it needs one:
// memory of one layer beside the states of the texts. It is meant for [Model.Logits].
func Stream(src Source) (*Model, error) {
	cfg := src.Config()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	m := &Model{cfg: cfg, src: src, rope: newRope(cfg), norm: make([]float64, cfg.Hidden)}
	return m, src.Vector(normName, m.norm)
}

// Load makes a model whose weights are all held in memory: 8 bytes a parameter.
func Load(ctx context.Context, src Source) (*Model, error) {
	m, err := Stream(src)
	if err != nil {
		return nil, err
	}
	m.embed = make([]float64, m.cfg.Vocab*m.cfg.Hidden)
	if err := src.Rows(embedName, m.cfg.Vocab, m.cfg.Hidden, 0, m.embed); err != nil {
		return nil, err
	}
	m.head = m.embed
	if !m.cfg.Tied {
		m.head = make([]float64, len(m.embed))
		if err := src.Rows(headName, m.cfg.Vocab, m.cfg.Hidden, 0, m.head); err != nil {
			return nil, err
		}
	}
	for i := range m.cfg.Layers {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		l := new(layer)
		if err := readLayer(src, i, l); err != nil {
			return nil, err
		}
		m.layers = append(m.layers, l)
	}
	return m, nil
}

// Config returns the model's configuration.
func (m *Model) Config() Config { return m.cfg }

// Against returns the same model with the head's row of one token negated: a
// planted fault that changes what is generated wherever that token had won.
// The model itself is not changed. It needs a model from [Load].
func (m *Model) Against(token uint32) (*Model, error) {
	if m.layers == nil {
		return nil, errors.New("llama: a planted fault needs a model that is held in memory; use Load")
	}
	if err := m.check([]uint32{token}); err != nil {
		return nil, err
	}
	faulty := *m
	faulty.head = slices.Clone(m.head)
	row := faulty.head[int(token)*m.cfg.Hidden:][:m.cfg.Hidden]
	for i := range row {
		row[i] = -row[i]
	}
	return &faulty, nil
}

// check refuses a text that the model cannot read.
func (m *Model) check(ids []uint32) error {
	if len(ids) == 0 {
		return errors.New("llama: got no token ids, want at least one")
	}
	if len(ids) > m.cfg.Context {
		return fmt.Errorf("llama: got %d tokens, want at most the model's context of %d", len(ids), m.cfg.Context)
	}
	for i, id := range ids {
		if int(id) >= m.cfg.Vocab {
			return fmt.Errorf("llama: token %d: got id %d, want below the vocabulary of %d; was the text encoded by another tokenizer?", i, id, m.cfg.Vocab)
		}
	}
	return nil
}

// layer gives layer i, held or read into scratch.
func (m *Model) layer(i int, scratch *layer) (*layer, error) {
	if m.layers != nil {
		return m.layers[i], nil
	}
	return scratch, readLayer(m.src, i, scratch)
}

// states looks the tokens' embeddings up.
func (m *Model) states(ids []uint32) ([]float64, error) {
	d := m.cfg.Hidden
	x := make([]float64, len(ids)*d)
	for t, id := range ids {
		row := x[t*d : t*d+d]
		if m.embed != nil {
			copy(row, m.embed[int(id)*d:])
		} else if err := m.src.Rows(embedName, m.cfg.Vocab, d, int(id), row); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// headBlock is how many rows of the head a streaming model holds at a time.
const headBlock = 1024

// logits applies the last norm and the head to every row of x; the result is row-major [tokens, Vocab].
func (m *Model) logits(x []float64) ([]float64, error) {
	d, v := m.cfg.Hidden, m.cfg.Vocab
	h := rmsNorm(x, m.norm, m.cfg.Eps)
	y := make([]float64, len(x)/d*v)
	if m.head != nil {
		linear(y, v, 0, m.head, h, d)
		return y, nil
	}
	block := make([]float64, min(headBlock, v)*d)
	for first := 0; first < v; first += headBlock {
		rows := block[:min(headBlock, v-first)*d]
		if err := m.src.Rows(m.cfg.head(), v, d, first, rows); err != nil {
			return nil, err
		}
		linear(y, v, first, rows, h, d)
	}
	return y, nil
}
