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

// chunk is the number of weights that a worker holds at once: a multiple of every block length.
const chunk = 64 << 10

// pair is one tensor of the source with the one of its name in the product.
type pair struct {
	src, dst *tensor
	// want writes the product's type from float32; unused when both sides store the same type.
	want quant.Codec
}

// newPair tells why a product's tensor cannot be recomputed, if it cannot.
func newPair(src, dst *tensor) (*pair, error) {
	p := &pair{src: src, dst: dst}
	if src.typ == dst.typ {
		return p, nil
	}
	if src.typ.Quantized() {
		return nil, fmt.Errorf("type %s made from the quantized type %s is not recomputed", dst.typ, src.typ)
	}
	var err error
	if p.want, err = quant.Writer(dst.typ); err != nil || src.rows.Codec.Dequantize == nil {
		return nil, fmt.Errorf("type %s is not recomputed", dst.typ)
	}
	return p, nil
}

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
	got, raw, want []byte
	floats         []float32
}

var pool = sync.Pool{New: func() any { return new(buffers) }}

// grow returns a slice of n elements, from s where it is large enough.
func grow[T any](s []T, n int64) []T {
	if int64(cap(s)) < n {
		return make([]T, n)
	}
	return s[:n]
}

// compare recomputes the weights [from, to) and compares them with the
// product's bytes. Both bounds are multiples of the block, or the end.
func (p *pair) compare(ctx context.Context, from, to int64) (difference, error) {
	b := pool.Get().(*buffers)
	defer pool.Put(b)
	var d difference
	for at := from; at < to; at += chunk {
		if err := ctx.Err(); err != nil {
			return d, err
		}
		n := min(chunk, to-at)
		b.got = grow(b.got, p.dst.rows.Codec.Size(n))
		if err := p.dst.rows.Raw(b.got, at); err != nil {
			return d, fmt.Errorf("product: tensor %s: %w", p.dst.origin, err)
		}
		want, err := p.wanted(b, at, n)
		if err != nil {
			return d, err
		}
		if !bytes.Equal(b.got, want) {
			d.add(differing(b.got, want, at, p.dst.rows.Codec))
		}
	}
	return d, nil
}

// wanted recomputes n weights from at on, in the product's type.
func (p *pair) wanted(b *buffers, at, n int64) ([]byte, error) {
	b.raw = grow(b.raw, p.src.rows.Codec.Size(n))
	if err := p.src.rows.Raw(b.raw, at); err != nil {
		return nil, fmt.Errorf("source: tensor %s: %w", p.src.origin, err)
	}
	if p.src.typ == p.dst.typ {
		if p.src.typ == gguf.BF16 && !bytes.Equal(b.got, b.raw) {
			quant.QuietBF16(b.raw)
		}
		return b.raw, nil
	}
	b.floats, b.want = grow(b.floats, n), grow(b.want, p.want.Size(n))
	p.src.rows.Codec.Dequantize(b.floats, b.raw)
	p.want.Quantize(b.want, b.floats)
	return b.want, nil
}

// differing walks the blocks of a chunk that is known to differ.
func differing(got, want []byte, at int64, c quant.Codec) difference {
	var d difference
	for i := 0; i < len(got); i += c.Bytes {
		if g, w := got[i:i+c.Bytes], want[i:i+c.Bytes]; !bytes.Equal(g, w) {
			d.add(difference{blocks: 1, first: at + int64(i/c.Bytes*c.Weights), got: bytes.Clone(g), want: bytes.Clone(w)})
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
