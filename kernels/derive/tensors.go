package derive

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// state is how one tensor came out.
type state int

const (
	exact     state = iota // every bit recomputed
	bounded                // codes exact, scales within bounds
	reordered              // the source's encoded rows in another rotary order
	undecided              // neither recomputed nor refuted
	differs                // recomputed, and different
	misplaced              // missing, extra, of another shape, or of a type that its kind never has
)

// result is the outcome of one tensor.
type result struct {
	state     state
	class     Class
	how       making    // of a tensor that was recomputed
	differing int64     // blocks that are not the recomputed ones
	pair      *pair     // nil where there is nothing to compare
	measured  *measured // nil for exact tensors, and where it could not be measured
	relative  *float64  // relative error, nil where it is not known
	move      *Move     // of a tensor whose rows were moved
	why       string    // what the bounds say of a tensor that is not exact
}

// unmade is a tensor of the product that is not recomputed, and why.
type unmade struct {
	src, dst *tensor
	why      string
}

// inventory is the comparison of all tensors.
type inventory struct {
	results  map[string]*result
	types    map[string]int // tensors of the product by type
	findings []kernels.Finding
	file     making // the one way in which every recomputed tensor fits; the zero value for none
	pairs    []*pair
	open     []unmade
	matrix   []kernels.Finding // what is wrong with the matrix at hand and does not speak against its use
	nearly   bool              // computed RoPE factors lie within the tolerance, not bit for bit
}

// compareTensors compares every tensor of both sides.
func compareTensors(ctx context.Context, src, dst *side, o Options) (*inventory, error) {
	inv := &inventory{results: map[string]*result{}, types: map[string]int{}, findings: []kernels.Finding{}}
	var err error
	if inv.matrix, err = judgeMatrix(src, o); err != nil {
		return nil, err
	}
	matrix := newImportance(o)
	for i := range src.tensors {
		if err := inv.match(&src.tensors[i], src, dst, matrix); err != nil {
			return nil, err
		}
	}
	for i := range dst.tensors {
		t := &dst.tensors[i]
		inv.types[typeName(t.typ)]++
		if src.byName[t.name] == nil {
			if err := inv.extra(t, src); err != nil {
				return nil, err
			}
		}
	}
	if src.model != nil && src.model.RopeFactors != nil && dst.byName[convert.RopeFreqs] == nil && !dst.snapshot() {
		inv.find(misplaced, convert.RopeFreqs, "inventory", "no such tensor", "the factors of llama3 RoPE scaling", "positions beyond the first ones would be wrong; convert again")
	}
	if err := inv.run(ctx); err != nil {
		return nil, err
	}
	inv.findings = append(inv.findings, label(dst)...)
	return inv, nil
}

func (inv *inventory) find(s state, name, check, got, want, hint string) {
	if inv.results[name] == nil {
		inv.results[name] = &result{}
	}
	inv.results[name].state = s
	inv.findings = append(inv.findings, kernels.Finding{Check: check, Where: "tensor " + name, Got: got, Want: want, Hint: hint})
}

// match looks for a source's tensor in the product.
func (inv *inventory) match(s *tensor, src, dst *side, m *importance) error {
	d := dst.byName[s.name]
	switch {
	case d == nil && s.name == convert.RopeFreqs && dst.model != nil && dst.model.RopeFactors != nil:
		return nil // a snapshot gives the factors in its config
	case d == nil:
		inv.find(misplaced, s.name, "inventory", "no such tensor", "the product of "+s.origin, "the product is incomplete; make it again")
		return nil
	case !slices.Equal(s.dims, d.dims):
		inv.find(misplaced, s.name, "shape", fmt.Sprint(d.dims), fmt.Sprint(s.dims), "")
		return nil
	}
	if want, fixed := fixedType(s, src); fixed && d.typ != want && !dst.snapshot() {
		inv.find(misplaced, s.name, "type", d.typ.String(), want.String(), "one-dimensional tensors and norms keep this type")
		return nil
	}
	p, err := newPair(s, d)
	if err != nil {
		inv.open = append(inv.open, unmade{s, d, err.Error()})
		return nil
	}
	if err := m.weigh(p); err != nil {
		return err
	}
	p.quiet = src.snapshot() != dst.snapshot()
	if p.rotary = src.rotaryHeads(s.name); src.snapshot() { // to name the mistake: such a target is not derived
		p.rotary = dst.rotaryHeads(s.name)
	}
	inv.pairs = append(inv.pairs, p)
	return nil
}

// unmade measures the tensors of types that are not recomputed, several at once, and judges them by their error alone.
func (inv *inventory) unmade(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	found := make([]*float64, len(inv.open))
	for i, u := range inv.open {
		group.Go(func() (err error) {
			found[i], err = errorOnly(ctx, u.src, u.dst)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, u := range inv.open {
		inv.judgeError(u, found[i])
	}
	return nil
}

func (inv *inventory) judgeError(u unmade, relative *float64) {
	r := &result{state: undecided, why: u.why, relative: relative}
	inv.results[u.src.name] = r
	if relative != nil && *relative >= unrelated {
		inv.find(differs, u.src.name, "values", fmt.Sprintf("a relative error of %.3g", *relative), "below 1", "these are not the source's weights")
		return
	}
	if relative != nil {
		r.class = ClassD
	}
	inv.find(undecided, u.src.name, CheckUnmade, u.why, "a type that is recomputed from unquantized weights", "only the error is known of this tensor's values")
}

// fixedType is the type of a tensor that no conversion or quantization changes.
func fixedType(s *tensor, src *side) (gguf.Type, bool) {
	if convert.Quantizes(s.name, s.dims) {
		return 0, false
	}
	if src.model != nil {
		return gguf.F32, true
	}
	return s.typ, true
}

// extra judges a tensor of the product that the source does not have.
func (inv *inventory) extra(t *tensor, src *side) error {
	if t.name != convert.RopeFreqs || src.model == nil || src.model.RopeFactors == nil {
		inv.find(misplaced, t.name, "inventory", "a tensor that the source does not have", "no such tensor", "")
		return nil
	}
	want := src.model.RopeFactors
	if t.typ != gguf.F32 || !slices.Equal(t.dims, []uint64{uint64(len(want))}) {
		inv.find(misplaced, t.name, "shape", fmt.Sprintf("%s %v", t.typ, t.dims), fmt.Sprintf("F32 [%d]", len(want)), "")
		return nil
	}
	raw, got := make([]byte, 4*len(want)), make([]float32, len(want))
	if err := t.rows.Raw(raw, 0); err != nil {
		return fmt.Errorf("product: tensor %s: %w", t.name, err)
	}
	t.rows.Codec.Dequantize(got, raw)
	for i := range want {
		if ulps(got[i], want[i]) > ropeTolerance {
			inv.find(differs, t.name, "values", fmt.Sprintf("%v at %d", got[i], i), fmt.Sprintf("%v within %d ulp", want[i], ropeTolerance), "RoPE scaling does not follow config.json")
			return nil
		}
		inv.nearly = inv.nearly || got[i] != want[i]
	}
	inv.results[t.name] = &result{state: exact, class: ClassA}
	if inv.nearly {
		inv.results[t.name] = &result{state: bounded, class: ClassB}
	}
	return nil
}

func (inv *inventory) count(s state) int {
	n := 0
	for _, r := range inv.results {
		if r.state == s {
			n++
		}
	}
	return n
}

func (inv *inventory) classes() map[Class]int {
	n := map[Class]int{}
	for _, r := range inv.results {
		n[r.class]++
	}
	return n
}

func (inv *inventory) measure(report *kernels.Report, src *side) {
	total := 0
	for _, n := range inv.types {
		total += n
	}
	report.Metric("tensors", "tensors", float64(total))
	for _, name := range sortedNames(inv.types) {
		report.Metric("tensors/"+name, "tensors", float64(inv.types[name]))
	}
	report.Metric("bytes_of_source", "bytes", float64(src.size()))
	classes := inv.classes()
	report.Metric("tensors_bit_exact", "tensors", float64(classes[ClassA]))
	report.Metric("tensors_bounded", "tensors", float64(classes[ClassB]))
	report.Metric("tensors_scales_free", "tensors", float64(classes[ClassC]))
	report.Metric("tensors_error_only", "tensors", float64(classes[ClassD]))
	report.Metric("tensors_differing", "tensors", float64(inv.count(differs)+inv.count(misplaced)+inv.count(reordered)))
}
