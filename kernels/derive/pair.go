package derive

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/quant"
)

const (
	// chunk is about the number of weights that a worker holds at once, a multiple of every
	// block length. Quantizers take whole rows: rows in whole multiples up to it, longer ones alone.
	chunk = 64 << 10
	// maxRow is the longest row in weights that is recomputed; real models stay below a sixteenth of it.
	maxRow = 4 << 20
)

// pair is one tensor of the source with the one of its name in the product.
type pair struct {
	src, dst   *tensor
	importance *importance // the matrix at hand, nil where it has nothing about this tensor
	experts    int64       // that it has numbers for
	rotary     int64       // heads by which the source's rows may have been moved, 0 for none
	quiet      bool        // a conversion lies between both sides, which may have made NaNs of BF16 quiet
}

// newPair tells why a product's tensor cannot be recomputed, if it cannot.
func newPair(src, dst *tensor) (*pair, error) {
	p := &pair{src: src, dst: dst}
	if p.same() {
		return p, nil
	}
	if src.typ.Quantized() {
		return nil, fmt.Errorf("type %s made from the quantized type %s is not recomputed", dst.typ, src.typ)
	}
	if _, err := rowWriter(dst.typ, quant.Plain, int(p.width())); err != nil || src.rows.Codec.Dequantize == nil {
		return nil, fmt.Errorf("type %s is not recomputed", dst.typ)
	}
	if p.width() > maxRow {
		return nil, fmt.Errorf("rows of %d weights, more than %d, are not recomputed", p.width(), maxRow)
	}
	return p, nil
}

// same tells that both sides store the same type, so that bytes are compared as they stand.
func (p *pair) same() bool { return p.src.typ == p.dst.typ }

// width is the length of a row as the product has it.
func (p *pair) width() int64 {
	if len(p.src.dims) == 0 {
		return 1
	}
	return int64(p.src.dims[0])
}

// step is the number of weights of one chunk.
func (p *pair) step() int64 {
	switch {
	case p.same():
		return chunk
	case p.width() > chunk:
		return p.width()
	}
	return chunk / p.width() * p.width()
}

// blocks is the number of blocks of the product's tensor.
func (p *pair) blocks() int64 { return p.src.rows.Weights() / int64(p.dst.rows.Codec.Weights) }

// difference collects the blocks of a tensor that differ. The zero value is none.
type difference struct {
	blocks    int64
	first     int64 // index of the first weight of the first differing block
	got, want []byte
}

// add merges another part of the same tensor.
func (d *difference) add(e difference) {
	if e.blocks == 0 {
		return
	}
	if d.blocks == 0 || e.first < d.first {
		d.first, d.got, d.want = e.first, e.got, e.want
	}
	d.blocks += e.blocks
}

// buffers are the memory of one worker, reused over chunks.
type buffers struct {
	got, raw, want       []byte
	floats               []float32 // as the quantizer sees them
	source, theirs, ours []float32 // as stored, for measuring
}

var pool = sync.Pool{New: func() any { return new(buffers) }}

// grow returns a slice of n elements, from s where it is large enough.
func grow[T any](s []T, n int64) []T {
	if int64(cap(s)) < n {
		return make([]T, n)
	}
	return s[:n]
}

// compare recomputes the weights [from, to) in the way of a making and compares
// them with the product's bytes. Both bounds are multiples of step, or the end.
func (p *pair) compare(ctx context.Context, m making, from, to int64) (difference, error) {
	b := pool.Get().(*buffers)
	defer pool.Put(b)
	var d difference
	var k *maker
	if !p.same() {
		var err error
		if k, err = p.maker(m); err != nil {
			return d, err
		}
	}
	for at := from; at < to; at += p.step() {
		if err := ctx.Err(); err != nil {
			return d, err
		}
		n := min(p.step(), to-at)
		if err := p.read(b, at, n); err != nil {
			return d, err
		}
		want := p.wanted(b, k, at, n)
		if !bytes.Equal(b.got, want) {
			d.add(differing(b.got, want, at, p.dst.rows.Codec))
		}
	}
	return d, nil
}

// read fills got and raw with n weights of both sides from at on.
func (p *pair) read(b *buffers, at, n int64) error {
	b.got = grow(b.got, p.dst.rows.Codec.Size(n))
	if err := p.dst.rows.Raw(b.got, at); err != nil {
		return fmt.Errorf("product: tensor %s: %w", p.dst.origin, err)
	}
	b.raw = grow(b.raw, p.src.rows.Codec.Size(n))
	if err := p.src.rows.Raw(b.raw, at); err != nil {
		return fmt.Errorf("source: tensor %s: %w", p.src.origin, err)
	}
	return nil
}

// wanted is what the product should store for the weights that were read; the result is valid until b is used again.
func (p *pair) wanted(b *buffers, k *maker, at, n int64) []byte {
	if p.quiet && p.same() && p.src.typ == gguf.BF16 && !bytes.Equal(b.got, b.raw) {
		quant.QuietBF16(b.raw)
	}
	return p.made(b, k, at, n)
}

// made is the same without a product to look at.
func (p *pair) made(b *buffers, k *maker, at, n int64) []byte {
	if p.same() {
		return b.raw
	}
	b.floats, b.want = grow(b.floats, n), grow(b.want, p.dst.rows.Codec.Size(n))
	p.src.rows.Codec.Dequantize(b.floats, b.raw)
	k.make(b.want, b.floats, at)
	return b.want
}

// differing walks the blocks of a chunk that is known to differ.
func differing(got, want []byte, at int64, c quant.Codec) difference {
	var d difference
	for i := 0; i < len(got); i += c.Bytes {
		if g, w := got[i:i+c.Bytes], want[i:i+c.Bytes]; !bytes.Equal(g, w) {
			d.blocks++
			if d.blocks == 1 {
				d.first, d.got, d.want = at+int64(i/c.Bytes*c.Weights), bytes.Clone(g), bytes.Clone(w)
			}
		}
	}
	return d
}

// reordered is the pair with the source's rows in another order.
func (p *pair) reordered(order convert.Order) *pair {
	q, src := *p, *p.src
	src.rows.Order = order
	q.src = &src
	return &q
}
