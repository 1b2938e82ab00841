package derive

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sort"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// job is the number of weights of one unit of parallel work.
const job = 64 * chunk

// state is how one tensor came out.
type state int

const (
	exact     state = iota // every bit recomputed
	differs                // recomputed, and different
	undecided              // not recomputed
	misplaced              // missing, extra, of another shape, or of a type that its kind never has
)

// inventory is the comparison of all tensors.
type inventory struct {
	states   map[string]state
	types    map[string]int // tensors of the product by type
	findings []kernels.Finding
	pairs    []*pair
	diffs    []difference // of each pair
}

// compareTensors compares every tensor of both sides.
func compareTensors(ctx context.Context, src, dst *side) (*inventory, error) {
	inv := &inventory{states: map[string]state{}, types: map[string]int{}, findings: []kernels.Finding{}}
	for i := range src.tensors {
		inv.match(&src.tensors[i], src, dst)
	}
	for i := range dst.tensors {
		t := &dst.tensors[i]
		inv.types[t.typ.String()]++
		if src.byName[t.name] == nil {
			if err := inv.extra(t, src); err != nil {
				return nil, err
			}
		}
	}
	if src.model != nil && src.model.RopeFactors != nil && dst.byName[convert.RopeFreqs] == nil && dst.model == nil {
		inv.find(misplaced, convert.RopeFreqs, "inventory", "no such tensor", "the factors of llama3 RoPE scaling", "positions beyond the first ones would be wrong; convert again")
	}
	if err := inv.run(ctx); err != nil {
		return nil, err
	}
	for i, p := range inv.pairs {
		if err := inv.judge(ctx, p, inv.diffs[i]); err != nil {
			return nil, err
		}
	}
	inv.findings = append(inv.findings, recipe(dst)...)
	return inv, nil
}

func (inv *inventory) find(s state, name, check, got, want, hint string) {
	inv.states[name] = s
	inv.findings = append(inv.findings, kernels.Finding{Check: check, Where: "tensor " + name, Got: got, Want: want, Hint: hint})
}

// match looks for a source's tensor in the product.
func (inv *inventory) match(s *tensor, src, dst *side) {
	d := dst.byName[s.name]
	switch {
	case d == nil && s.name == convert.RopeFreqs && dst.model != nil && dst.model.RopeFactors != nil:
		return // a snapshot gives the factors in its config
	case d == nil:
		inv.find(misplaced, s.name, "inventory", "no such tensor", "the product of "+s.origin, "the product is incomplete; make it again")
		return
	case !slices.Equal(s.dims, d.dims):
		inv.find(misplaced, s.name, "shape", fmt.Sprint(d.dims), fmt.Sprint(s.dims), "")
		return
	}
	if want, fixed := fixedType(s, src); fixed && d.typ != want && dst.model == nil {
		inv.find(misplaced, s.name, "type", d.typ.String(), want.String(), "one-dimensional tensors and norms keep this type")
		return
	}
	p, err := newPair(s, d)
	if err != nil {
		inv.find(undecided, s.name, "type", err.Error(), "F32, F16, BF16 or Q8_0 from unquantized weights", "nothing is known about this tensor's values")
		return
	}
	inv.pairs = append(inv.pairs, p)
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
	if t.typ != gguf.F32 || t.rows.Weights() != int64(len(want)) {
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
	}
	inv.states[t.name] = exact
	return nil
}

// run compares all pairs, in parallel over tensors and parts of them.
func (inv *inventory) run(ctx context.Context) error {
	inv.diffs = make([]difference, len(inv.pairs))
	var mutex sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, p := range inv.pairs {
		for from := int64(0); from < p.src.rows.Weights(); from += job {
			group.Go(func() error {
				d, err := p.compare(ctx, from, min(from+job, p.src.rows.Weights()))
				mutex.Lock()
				defer mutex.Unlock()
				inv.diffs[i].add(d)
				return err
			})
		}
	}
	return group.Wait()
}

// judge turns the difference of a pair into a state and a finding with its likely cause.
func (inv *inventory) judge(ctx context.Context, p *pair, d difference) error {
	if d.blocks == 0 {
		inv.states[p.src.name] = exact
		return nil
	}
	f := p.describe(d)
	inv.states[p.src.name] = differs
	if len(inv.findings) < kernels.MaxFindings {
		check, cause, err := p.diagnose(ctx)
		if err != nil {
			return err
		}
		if cause != "" {
			f.Check, f.Hint = check, cause+"; "+f.Hint
		}
	}
	inv.findings = append(inv.findings, f)
	return nil
}

func (inv *inventory) count(s state) int {
	n := 0
	for _, t := range inv.states {
		if t == s {
			n++
		}
	}
	return n
}

// onlyUndecided tells that every finding is about a tensor that was not recomputed.
func (inv *inventory) onlyUndecided() bool { return inv.count(undecided) == len(inv.findings) }

func (inv *inventory) measure(report *kernels.Report, src *side) {
	total := 0
	for _, n := range inv.types {
		total += n
	}
	report.Metric("tensors", "tensors", float64(total))
	names := make([]string, 0, len(inv.types))
	for name := range inv.types {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		report.Metric("tensors/"+name, "tensors", float64(inv.types[name]))
	}
	report.Metric("bytes_of_source", "bytes", float64(src.size()))
	report.Metric("tensors_bit_exact", "tensors", float64(inv.count(exact)))
	report.Metric("tensors_differing", "tensors", float64(inv.count(differs)+inv.count(misplaced)))
}
