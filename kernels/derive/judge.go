package derive

import (
	"context"
	"fmt"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/quant"
)

// run compares all pairs and judges each: bytes as they stand, then what was
// made, in the one way that fits the file where there is one.
func (inv *inventory) run(ctx context.Context) error {
	var same, other []*pair
	for _, p := range inv.pairs {
		if p.same() {
			same = append(same, p)
		} else {
			other = append(other, p)
		}
	}
	diffs, err := compareAll(ctx, same, make([]making, len(same)))
	if err != nil {
		return err
	}
	if err := inv.unmade(ctx); err != nil {
		return err
	}
	for i, p := range same {
		if err := inv.judge(ctx, p, making{}, diffs[i], nil, nil); err != nil {
			return err
		}
	}
	file, how, diffs, err := made(ctx, other)
	if err != nil {
		return err
	}
	inv.file = file
	var open []*pair
	var ways []making
	for i, p := range other {
		if diffs[i].blocks > 0 && p.measurable() {
			open, ways = append(open, p), append(ways, how[i])
		}
	}
	found, err := measureAll(ctx, open, ways)
	if err != nil {
		return err
	}
	sums := map[gguf.Type]*measured{}
	for i, p := range other {
		if sums[p.dst.typ] == nil {
			sums[p.dst.typ] = &measured{}
		}
		sums[p.dst.typ].add(measured{blocks: p.blocks(), differing: diffs[i].blocks})
	}
	for i, p := range other {
		var m *measured
		if diffs[i].blocks > 0 && p.measurable() {
			m, found = &found[0], found[1:]
		}
		if err := inv.judge(ctx, p, how[i], diffs[i], m, sums[p.dst.typ]); err != nil {
			return err
		}
	}
	return nil
}

// measurable tells that the product's type leaves something free that honest builds or a matrix choose.
func (p *pair) measurable() bool {
	t := p.dst.typ
	return p.dst.rows.Codec.Dequantize != nil && (usesMatrix(t) || builds(t) > 1)
}

// judge turns the comparison of a pair into a result, and a finding where it does
// not follow. m is its measurement where it is not exact and something is free in
// its type; ofType counts the blocks of all tensors of that type.
func (inv *inventory) judge(ctx context.Context, p *pair, how making, d difference, m, ofType *measured) error {
	r := &result{how: how, pair: p, differing: d.blocks, measured: m}
	inv.results[p.src.name] = r
	switch {
	case d.blocks == 0:
		r.state, r.class = exact, ClassA
		return nil
	case p.same():
		move, err := p.moved(ctx)
		if err != nil {
			return err
		}
		if move != nil {
			return inv.move(ctx, p, r, move)
		}
		return inv.refute(ctx, p, r, p.describe(d))
	case m == nil:
		return inv.refute(ctx, p, r, p.describe(d))
	}
	r.relative = finite(m.relative())
	switch checkable := quant.CodesFollow(p.dst.typ); {
	case m.badCodes > 0:
		return inv.refute(ctx, p, r, p.describeCodes(m))
	case edited(p.dst.typ, ofType.blocks, ofType.differing):
		f := p.describe(d)
		f.Hint = fmt.Sprintf("all others are exact (%s): no build differs in so few blocks; %s", how, f.Hint)
		return inv.refute(ctx, p, r, f)
	case checkable:
		r.class, r.why = free(*m)
	default:
		if r.class = ClassD; r.relative != nil && *r.relative >= unrelated {
			r.class = None
		}
	}
	switch r.class {
	case None:
		f := p.describe(d)
		f.Check, f.Got, f.Want = "scales", r.why, "scales within the bounds of real builds"
		return inv.refute(ctx, p, r, f)
	case ClassD:
		r.state = undecided
		inv.findings = append(inv.findings, kernels.Finding{
			Check: CheckUnmade, Where: "tensor " + p.src.name, Got: fmt.Sprintf("%d of %d blocks that no known build gives", d.blocks, p.blocks()), Want: "the recomputed blocks",
			Hint: fmt.Sprintf("the codes of %s cannot be checked against its scales; give the importance matrix if one was used", p.dst.typ),
		})
	default:
		r.state = bounded
	}
	return nil
}

// refute records a tensor that does not follow, with its likely cause.
func (inv *inventory) refute(ctx context.Context, p *pair, r *result, f kernels.Finding) error {
	r.state, r.class = differs, None
	if r.relative == nil {
		var err error
		if r.relative, err = errorOnly(ctx, p.src, p.dst); err != nil {
			return err
		}
	}
	if len(inv.findings) < kernels.MaxFindings {
		check, cause, err := p.diagnose(ctx)
		if err != nil {
			return err
		}
		if check != "" {
			f.Check = check
		}
		if cause != "" {
			f.Hint = cause + "; " + f.Hint
		}
	}
	inv.findings = append(inv.findings, f)
	return nil
}

// move records a tensor whose encoded rows stand in another order.
func (inv *inventory) move(ctx context.Context, p *pair, r *result, m *Move) error {
	f := kernels.Finding{Check: "rows moved", Where: "tensor " + p.src.name, Got: m.String(), Want: "the source's order"}
	if m.Heads == 0 {
		return inv.refute(ctx, p, r, f)
	}
	r.state, r.class, r.move = reordered, ClassA, m
	inv.findings = append(inv.findings, f)
	return nil
}
