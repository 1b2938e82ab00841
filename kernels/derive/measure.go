package derive

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/weighmaster/weighmaster/kernels/quant"
)

// measured is what can be said of a product's tensor whose bytes are not the
// recomputed ones: whether its codes follow from the source and its own scales,
// and how far its weights lie from the source's beside the recomputed ones.
type measured struct {
	blocks, differing int64
	badCodes          int64 // blocks whose codes do not follow
	firstBad          int64 // index of the first weight of the first of them
	// Squared sums over all weights: of the source, of the product's error, of the recomputed one's.
	power, error, recomputed float64
	worst                    float64 // the largest ratio of one block's error to the recomputed block's
	worstAt                  int64   // index of that block's first weight
	lost                     int64   // blocks that say too little of weights that the recomputed block keeps, see lostBlock
}

func (m *measured) add(e measured) {
	if e.badCodes > 0 && (m.badCodes == 0 || e.firstBad < m.firstBad) {
		m.firstBad = e.firstBad
	}
	if e.worst > m.worst || e.worst == m.worst && e.worstAt < m.worstAt {
		m.worst, m.worstAt = e.worst, e.worstAt
	}
	m.blocks, m.differing, m.badCodes = m.blocks+e.blocks, m.differing+e.differing, m.badCodes+e.badCodes
	m.lost += e.lost
	m.power, m.error, m.recomputed = m.power+e.power, m.error+e.error, m.recomputed+e.recomputed
}

// relative is the root mean square of the error over that of the source; NaN for a source of zeros.
func (m *measured) relative() float64 { return math.Sqrt(m.error / m.power) }

// ratio is the product's error over the recomputed one's; 1 where both are without error.
func (m *measured) ratio() float64 {
	if m.error == m.recomputed {
		return 1
	}
	return math.Sqrt(m.error / m.recomputed)
}

// equal is the share of blocks whose bytes are the recomputed ones.
func (m *measured) equal() float64 { return 1 - float64(m.differing)/float64(max(1, m.blocks)) }

// measureAll measures pairs, each beside its recomputation in its own way. Sums
// are taken part by part in order, so that they do not depend on the number of workers.
func measureAll(ctx context.Context, pairs []*pair, how []making) ([]measured, error) {
	found := make([]map[int64]measured, len(pairs))
	for i := range found {
		found[i] = map[int64]measured{}
	}
	var mutex sync.Mutex
	err := parts(ctx, pairs, func(ctx context.Context, i int, from, to int64) error {
		m, err := pairs[i].measure(ctx, how[i], from, to)
		mutex.Lock()
		defer mutex.Unlock()
		found[i][from] = m
		return err
	})
	sums := make([]measured, len(pairs))
	for i := range sums {
		for _, from := range sortedKeys(found[i]) {
			sums[i].add(found[i][from])
		}
	}
	return sums, err
}

func (p *pair) measure(ctx context.Context, how making, from, to int64) (measured, error) {
	k, err := p.maker(how)
	if err != nil {
		return measured{}, err
	}
	b := pool.Get().(*buffers)
	defer pool.Put(b)
	codec := p.dst.rows.Codec
	var m measured
	for at := from; at < to; at += p.step() {
		if err := ctx.Err(); err != nil {
			return m, err
		}
		n := min(p.step(), to-at)
		if err := p.read(b, at, n); err != nil {
			return m, err
		}
		ours := p.wanted(b, k, at, n)
		if quant.CodesFollow(p.dst.typ) {
			// b.floats are the weights as the quantizer saw them, behind any intermediate.
			if bad, first := quant.CheckCodes(p.dst.typ, b.got, b.floats); bad > 0 {
				m.add(measured{badCodes: bad, firstBad: at + first*int64(codec.Weights)})
			}
		}
		b.source, b.theirs, b.ours = grow(b.source, n), grow(b.theirs, n), grow(b.ours, n)
		p.src.rows.Codec.Dequantize(b.source, b.raw)
		codec.Dequantize(b.theirs, b.got)
		codec.Dequantize(b.ours, ours)
		for i := int64(0); i < n; i += int64(codec.Weights) {
			bytesAt := codec.Size(i)
			one := blockError(b.source[i:i+int64(codec.Weights)], b.theirs[i:], b.ours[i:])
			one.worstAt = at + i
			if lostBlock(p.dst.typ, one) {
				one.lost = 1
			}
			if !bytes.Equal(b.got[bytesAt:bytesAt+int64(codec.Bytes)], ours[bytesAt:bytesAt+int64(codec.Bytes)]) {
				one.differing = 1
			}
			m.add(one)
		}
	}
	return m, nil
}

// blockFloor is the squared error, over the squared weights, below which a
// block's recomputed error is not told from none: a thousandth of the weights' size.
const blockFloor = 1e-6

// blockError compares one block of both products with the source's weights.
func blockError(source, got, want []float32) measured {
	m := measured{blocks: 1}
	for i, x := range source {
		d, e := float64(got[i])-float64(x), float64(want[i])-float64(x)
		m.power += float64(float64(x) * float64(x))
		m.error += float64(d * d)
		m.recomputed += float64(e * e)
	}
	if m.error > 0 {
		m.worst = math.Sqrt(m.error / max(m.recomputed, blockFloor*m.power))
	}
	return m
}

// errorOnly measures a product's tensor that cannot be recomputed: its relative
// error alone. Nil where a type cannot be read or the source is zero or not finite.
func errorOnly(ctx context.Context, src, dst *tensor) (*float64, error) {
	if src.rows.Codec.Dequantize == nil || dst.rows.Codec.Dequantize == nil {
		return nil, nil
	}
	var sum measured
	var a, b reader
	for at := int64(0); at < src.rows.Weights(); at += chunk {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n := min(chunk, src.rows.Weights()-at)
		x, err := a.floats(src, at, n)
		if err != nil {
			return nil, fmt.Errorf("source: tensor %s: %w", src.origin, err)
		}
		y, err := b.floats(dst, at, n)
		if err != nil {
			return nil, fmt.Errorf("product: tensor %s: %w", dst.origin, err)
		}
		sum.add(blockError(x, y, x))
	}
	return finite(sum.relative()), nil
}

// finite is a number for JSON, nil for what JSON does not have.
func finite(e float64) *float64 {
	if math.IsNaN(e) || math.IsInf(e, 0) {
		return nil
	}
	return &e
}

// reader reads weights of any type that has a codec.
type reader struct {
	raw    []byte
	buffer []float32
}

func (r *reader) floats(t *tensor, at, n int64) ([]float32, error) {
	r.raw, r.buffer = grow(r.raw, t.rows.Codec.Size(n)), grow(r.buffer, n)
	if err := t.rows.Raw(r.raw, at); err != nil {
		return nil, err
	}
	t.rows.Codec.Dequantize(r.buffer, r.raw)
	return r.buffer, nil
}
