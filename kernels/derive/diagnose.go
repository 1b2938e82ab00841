package derive

import (
	"context"
	"fmt"

	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/quant"
)

// diagnose looks for the likely cause of a difference: a row order that fits
// the whole tensor, or a pass through a quantized type.
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
	for _, w := range p.src.wrong {
		q, src := *p, *p.src
		src.rows, src.typ = w.Rows, w.Rows.Codec.Type
		q.src = &src
		fits, err := q.fits(ctx)
		if err != nil {
			return "", "", err
		}
		if fits {
			return "", "the values fit " + w.Name, nil
		}
	}
	if p.src.typ.Quantized() {
		return "", "", nil
	}
	for _, via := range []gguf.Type{gguf.Q8_0, gguf.Q6_K, gguf.Q5_K, gguf.Q4_K} {
		what, err := p.through(ctx, via)
		if err != nil {
			return "", "", err
		}
		if what != "" {
			return "", fmt.Sprintf("the %s follow the source after a pass through %s: made from a quantized file", what, via), nil
		}
	}
	return "", "", nil
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

// fits compares until the first difference: exactly, or where the codes of the
// type follow from its scales, by the codes alone.
func (p *pair) fits(ctx context.Context) (bool, error) {
	if quant.CodesFollow(p.dst.typ) && !p.same() {
		bad, err := p.codesDiffering(ctx, making{build: quant.Plain}, true)
		return bad == 0, err
	}
	list := []making{{}}
	if !p.same() {
		list = makings([]*pair{p})
	}
	for _, m := range list {
		fits, err := p.fitsAs(ctx, m)
		if fits || err != nil {
			return fits, err
		}
	}
	return false, nil
}

func (p *pair) fitsAs(ctx context.Context, m making) (bool, error) {
	for from := int64(0); from < p.src.rows.Weights(); from += p.step() {
		d, err := p.compare(ctx, m, from, min(from+p.step(), p.src.rows.Weights()))
		if err != nil || d.blocks > 0 {
			return false, err
		}
	}
	return true, nil
}

// codesDiffering counts the blocks whose codes do not follow from the source's
// weights, taken through the making's intermediate type; until the first one if wanted.
func (p *pair) codesDiffering(ctx context.Context, m making, first bool) (int64, error) {
	k, err := p.maker(m)
	if err != nil {
		return 0, err
	}
	b := pool.Get().(*buffers)
	defer pool.Put(b)
	var total int64
	for at := int64(0); at < p.src.rows.Weights() && !(first && total > 0); at += p.step() {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n := min(p.step(), p.src.rows.Weights()-at)
		if err := p.read(b, at, n); err != nil {
			return 0, err
		}
		b.floats = grow(b.floats, n)
		p.src.rows.Codec.Dequantize(b.floats, b.raw)
		k.through(b.floats)
		bad, _ := quant.CheckCodes(p.dst.typ, b.got, b.floats)
		total += bad
	}
	return total, nil
}

// through tells what of the product follows from the source after a pass
// through a quantized type: "codes", "values", or nothing.
func (p *pair) through(ctx context.Context, via gguf.Type) (string, error) {
	weights, _, _ := via.Block()
	if p.dst.typ == via || p.width()%int64(weights) != 0 {
		return "", nil
	}
	q := *p
	if p.same() { // a product in the source's own type: recompute it as if the source were wider
		wide := *p.src
		wide.typ = gguf.F32
		q.src = &wide
	}
	m := making{build: quant.Plain, via: via}
	if _, err := q.maker(m); err != nil {
		return "", nil // a type that is not recomputed
	}
	if quant.CodesFollow(p.dst.typ) {
		bad, err := q.codesDiffering(ctx, m, true)
		if err != nil || bad > 0 {
			return "", err
		}
		return "codes", nil
	}
	fits, err := q.fitsAs(ctx, m)
	if err != nil || !fits {
		return "", err
	}
	return "values", nil
}
