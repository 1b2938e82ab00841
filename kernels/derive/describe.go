package derive

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/quant"
)

// ropeTolerance is how far computed RoPE factors may lie apart, in units in the last place.
const ropeTolerance = 4

// describe names the first difference by row and column, or by row and block and what in the block.
func (p *pair) describe(d difference) kernels.Finding {
	row, column := d.first/p.width(), d.first%p.width()
	f := kernels.Finding{Check: "values", Where: fmt.Sprintf("tensor %s row %d column %d", p.src.name, row, column)}
	unit, total := "weights", p.src.rows.Weights()
	switch c := p.dst.rows.Codec; {
	case p.dst.typ == gguf.Q8_0:
		unit, total = "blocks", total/int64(c.Weights)
		f.Where = fmt.Sprintf("tensor %s row %d block %d", p.src.name, row, column/int64(c.Weights))
		f.Got, f.Want = q8Difference(d.got, d.want)
	case c.Dequantize != nil && c.Weights == 1:
		f.Got, f.Want = number(d.got, c), number(d.want, c)
	default:
		unit, total = "blocks", total/int64(c.Weights)
		f.Where = fmt.Sprintf("tensor %s row %d block %d", p.src.name, row, column/int64(c.Weights))
		f.Got, f.Want = fmt.Sprintf("%x", d.got), fmt.Sprintf("%x", d.want)
	}
	f.Hint = fmt.Sprintf("%d of %d %s of this tensor differ", d.blocks, total, unit)
	return f
}

// width is the length of a row as the product has it.
func (p *pair) width() int64 {
	if len(p.src.dims) == 0 {
		return 1
	}
	return int64(p.src.dims[0])
}

// q8Difference names what differs in a Q8_0 block: the scale, else the first code.
func q8Difference(got, want []byte) (g, w string) {
	gotScale, wantScale := binary.LittleEndian.Uint16(got), binary.LittleEndian.Uint16(want)
	if gotScale != wantScale {
		return fmt.Sprintf("scale %#04x (%v)", gotScale, quant.HalfToFloat(gotScale)), fmt.Sprintf("scale %#04x (%v)", wantScale, quant.HalfToFloat(wantScale))
	}
	for i := 2; i < len(got); i++ {
		if got[i] != want[i] {
			return fmt.Sprintf("code %d at %d", int8(got[i]), i-2), fmt.Sprintf("code %d at %d", int8(want[i]), i-2)
		}
	}
	return "", ""
}

// number shows one stored number: its bits and its value.
func number(stored []byte, c quant.Codec) string {
	var value [1]float32
	c.Dequantize(value[:], stored)
	var bits uint64
	for i, b := range stored {
		bits |= uint64(b) << (8 * i)
	}
	return fmt.Sprintf("%#0*x (%v)", 2*len(stored), bits, value[0])
}

// diagnose looks for the likely cause of a difference: a row order that fits
// the whole tensor, or a pass through Q8_0.
func (p *pair) diagnose(ctx context.Context) (check, cause string, err error) {
	for _, c := range p.orders() {
		fits, err := p.reordered(c.order).fits(ctx)
		if err != nil {
			return "", "", err
		}
		if fits {
			return "permutation", "the rows fit " + c.name, nil
		}
	}
	if p.dst.typ.Quantized() || p.src.typ.Quantized() || p.width()%32 != 0 {
		return "", "", nil
	}
	fits, err := p.fitsThroughQ8(ctx)
	if err != nil || !fits {
		return "", "", err
	}
	return "values", "the values fit the source after a pass through Q8_0: made from a quantized file", nil
}

// namedOrder is a row order that a wrong conversion gives.
type namedOrder struct {
	name  string
	order convert.Order
}

// orders lists the wrong orders of a Q or K tensor: none, twice, and for every other number of heads.
func (p *pair) orders() []namedOrder {
	if p.src.heads == 0 {
		return nil
	}
	rows := p.src.rows.Count
	right := p.src.rows.Order
	list := []namedOrder{
		{fmt.Sprintf("no permutation: they stand as in the checkpoint, want those of %d heads interleaved", p.src.heads), nil},
		{fmt.Sprintf("a permutation for %d heads done twice, want once", p.src.heads), func(row int64) int64 { return right(right(row)) }},
	}
	for heads := int64(1); heads <= min(rows/2, 1024); heads++ {
		if heads != p.src.heads && convert.Permutes(rows, heads) {
			list = append(list, namedOrder{fmt.Sprintf("a permutation for %d heads, want %d", heads, p.src.heads), convert.HeadOrder(rows, heads)})
		}
	}
	return list
}

// fits compares until the first difference.
func (p *pair) fits(ctx context.Context) (bool, error) {
	for from := int64(0); from < p.src.rows.Weights(); from += chunk {
		d, err := p.compare(ctx, from, min(from+chunk, p.src.rows.Weights()))
		if err != nil || d.blocks > 0 {
			return false, err
		}
	}
	return true, nil
}

// fitsThroughQ8 compares with the source quantized to Q8_0 and back, until the first difference.
func (p *pair) fitsThroughQ8(ctx context.Context) (bool, error) {
	q8, err := quant.Writer(gguf.Q8_0)
	if err != nil {
		return false, err
	}
	q, src := *p, *p.src
	codec := src.rows.Codec
	through := make([]byte, q8.Size(chunk))
	src.rows.Codec.Dequantize = func(dst []float32, raw []byte) {
		codec.Dequantize(dst, raw)
		q8.Quantize(through, dst)
		q8.Dequantize(dst, through[:q8.Size(int64(len(dst)))])
	}
	src.typ = src.typ + 1<<16 // no type of the format: the bytes are never compared as they stand
	q.src = &src
	if q.want, err = quant.Writer(p.dst.typ); err != nil {
		return false, err
	}
	return q.fits(ctx)
}

// ulps is the distance of two numbers in units in the last place; far for NaNs and unlike signs.
func ulps(a, b float32) uint32 {
	x, y := math.Float32bits(a), math.Float32bits(b)
	if a != a || b != b || x>>31 != y>>31 {
		return math.MaxUint32
	}
	return max(x, y) - min(x, y)
}
