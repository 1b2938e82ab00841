package llama

import "fmt"

// Source gives the tensors of one model under their Hugging Face names, in
// Hugging Face's row order, as float64. A Source must allow concurrent reads.
type Source interface {
	Config() Config
	// Vector reads a one-dimensional tensor of len(dst) values.
	Vector(name string, dst []float64) error
	// Rows reads len(dst)/cols rows from row first on, of a tensor of shape [rows, cols].
	Rows(name string, rows, cols, first int, dst []float64) error
}

// Tensor names outside the layers.
const (
	embedName = "model.embed_tokens.weight"
	normName  = "model.norm.weight"
	headName  = "lm_head.weight"
)

// layer holds one layer's weights, row-major [out, in].
type layer struct{ attnNorm, q, k, v, o, ffnNorm, gate, up, down []float64 }

// part is one tensor of a model: its shape and, in a layer, the place it is read to.
type part struct {
	name       string
	rows, cols int // rows 0: a vector of cols values
	dst        *[]float64
}

// parts lists the tensors of layer i.
func (l *layer) parts(c Config, i int) []part {
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	list := []part{
		{"input_layernorm", 0, c.Hidden, &l.attnNorm},
		{"self_attn.q_proj", q, c.Hidden, &l.q},
		{"self_attn.k_proj", kv, c.Hidden, &l.k},
		{"self_attn.v_proj", kv, c.Hidden, &l.v},
		{"self_attn.o_proj", c.Hidden, q, &l.o},
		{"post_attention_layernorm", 0, c.Hidden, &l.ffnNorm},
		{"mlp.gate_proj", c.FFN, c.Hidden, &l.gate},
		{"mlp.up_proj", c.FFN, c.Hidden, &l.up},
		{"mlp.down_proj", c.Hidden, c.FFN, &l.down},
	}
	for j := range list {
		list[j].name = fmt.Sprintf("model.layers.%d.%s.weight", i, list[j].name)
	}
	return list
}

// parts lists every tensor that the forward pass uses.
func (c Config) parts() []part {
	list := []part{{name: embedName, rows: c.Vocab, cols: c.Hidden}, {name: normName, cols: c.Hidden}}
	if !c.Tied {
		list = append(list, part{name: headName, rows: c.Vocab, cols: c.Hidden})
	}
	for i := range c.Layers {
		list = append(list, new(layer).parts(c, i)...)
	}
	return list
}

func (c Config) head() string {
	if c.Tied {
		return embedName
	}
	return headName
}

// readLayer reads layer i, into the slices that l already has where they fit.
func readLayer(src Source, i int, l *layer) error {
	for _, p := range l.parts(src.Config(), i) {
		n := max(p.rows, 1) * p.cols
		if cap(*p.dst) < n {
			*p.dst = make([]float64, n)
		}
		*p.dst = (*p.dst)[:n]
		var err error
		if p.rows == 0 {
			err = src.Vector(p.name, *p.dst)
		} else {
			err = src.Rows(p.name, p.rows, p.cols, 0, *p.dst)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p part) shape() []int {
	if p.rows == 0 {
		return []int{p.cols}
	}
	return []int{p.rows, p.cols}
}
