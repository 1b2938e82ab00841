package llama

import "math"

// cache holds one layer's keys (rotated) and values, one row of KVHeads·HeadDim a position.
type cache struct{ k, v []float64 }

// forward runs one layer over the tokens of x (rows of Hidden, the first at
// position at), adds their keys and values to the cache and returns the new
// states. With lastOnly it returns the last token's state alone: the others'
// are not needed after the last layer's keys and values.
func (m *Model) forward(l *layer, kv *cache, x []float64, at int, lastOnly bool) []float64 {
	c, d := m.cfg, m.cfg.Hidden
	h := rmsNorm(x, l.attnNorm, c.Eps)
	m.rope.reach(at + len(x)/d)
	kv.k = append(kv.k, m.project(l.k, h, at, true)...)
	kv.v = append(kv.v, m.project(l.v, h, at, false)...)
	if lastOnly {
		at += len(x)/d - 1
		x, h = x[len(x)-d:], h[len(h)-d:]
	}
	q := m.project(l.q, h, at, true)
	a := m.attend(q, kv, at)
	y := make([]float64, len(x))
	linear(y, d, 0, l.o, a, c.Heads*c.HeadDim)
	add(y, x)
	m.feedForward(l, y)
	return y
}

// project gives w·h for every token, rotated to its position where asked.
func (m *Model) project(w, h []float64, at int, rotated bool) []float64 {
	d := m.cfg.Hidden
	outs := len(w) / d
	y := make([]float64, len(h)/d*outs)
	linear(y, outs, 0, w, h, d)
	if rotated {
		for t := range len(h) / d {
			m.rope.rotate(y[t*outs:(t+1)*outs], at+t)
		}
	}
	return y
}

// attend is causal attention of the queries, the first at position at, over
// the cache. Query head h uses key/value head h / (Heads/KVHeads).
func (m *Model) attend(q []float64, kv *cache, at int) []float64 {
	c := m.cfg
	width, kvWidth, group := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim, c.Heads/c.KVHeads
	n := len(q) / width
	scale := 1 / math.Sqrt(float64(c.HeadDim))
	out := make([]float64, len(q))
	one := func(t int, p []float64) {
		for h := range c.Heads {
			query := q[t*width+h*c.HeadDim:][:c.HeadDim]
			sum := out[t*width+h*c.HeadDim:][:c.HeadDim]
			from := h / group * c.HeadDim
			for s := range p {
				p[s] = dot(query, kv.k[s*kvWidth+from:][:c.HeadDim]) * scale
			}
			softmax(p)
			for s, w := range p {
				value := kv.v[s*kvWidth+from:][:c.HeadDim]
				for i := range sum {
					sum[i] += float64(w * value[i])
				}
			}
		}
	}
	// Tokens are taken in pairs from both ends: each pair is the same amount of work.
	parallel((n+1)/2, n*(2*at+n)*width, func(from, to int) {
		p := make([]float64, at+n)
		for i := from; i < to; i++ {
			one(i, p[:at+i+1])
			if j := n - 1 - i; j != i {
				one(j, p[:at+j+1])
			}
		}
	})
	return out
}

// ffnBlock bounds the memory of the feed-forward part, in tokens.
const ffnBlock = 128

// feedForward adds down(silu(gate·h) ∘ up·h), h = norm(x), to x in place.
func (m *Model) feedForward(l *layer, x []float64) {
	d, f := m.cfg.Hidden, m.cfg.FFN
	for len(x) > 0 {
		part := x[:min(ffnBlock*d, len(x))]
		x = x[len(part):]
		h := rmsNorm(part, l.ffnNorm, m.cfg.Eps)
		n := len(part) / d
		g, u, y := make([]float64, n*f), make([]float64, n*f), make([]float64, n*d)
		linear(g, f, 0, l.gate, h, d)
		linear(u, f, 0, l.up, h, d)
		for i := range g {
			g[i] = g[i] / (1 + math.Exp(-g[i])) * u[i]
		}
		linear(y, d, 0, l.down, g, f)
		add(part, y)
	}
}

// rmsNorm gives x / √(mean(x²) + eps) · weight for each row of x.
func rmsNorm(x, weight []float64, eps float64) []float64 {
	d := len(weight)
	y := make([]float64, len(x))
	for t := 0; t < len(x); t += d {
		row := x[t : t+d]
		r := 1 / math.Sqrt(dot(row, row)/float64(d)+eps)
		for i := range row {
			y[t+i] = row[i] * r * weight[i]
		}
	}
	return y
}

// softmax replaces scores with their weights.
func softmax(p []float64) {
	top := math.Inf(-1)
	for _, s := range p {
		top = max(top, s)
	}
	sum := 0.0
	for i := range p {
		p[i] = math.Exp(p[i] - top)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
}

func add(to, x []float64) {
	for i := range to {
		to[i] += x[i]
	}
}
