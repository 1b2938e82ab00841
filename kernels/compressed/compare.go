package compressed

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"sync"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/folder"
	"github.com/weighmaster/weighmaster/kernels/number"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// The checks of a comparison, as findings name them.
const (
	CheckTensor    = "tensor"
	CheckMissing   = "tensor missing"
	CheckNoSource  = "tensor without a source"
	CheckRebuilt   = "quantized weights"
	CheckUntouched = "untouched tensor"
	CheckScale     = "scale"
)

// Outcome is what one tensor is to the source's.
type Outcome string

const (
	Same    Outcome = "same bits"
	Bounded Outcome = "within the error bound"
	Differs Outcome = "differs"
)

// TensorResult is the comparison of one tensor of the source.
type TensorResult struct {
	Name    string  `json:"name"` // in the source
	Format  Format  `json:"format,omitempty"`
	Layout  Layout  `json:"layout,omitempty"`
	Outcome Outcome `json:"outcome"`
	Weights uint64  `json:"weights"`

	// Of a quantized matrix:
	Outside   int64 `json:"outside,omitempty"`   // weights beyond the bound
	Saturated int64 `json:"saturated,omitempty"` // weights beyond the largest code
	Nearest   int64 `json:"nearest,omitempty"`   // weights whose code is the nearest one
	// Loose counts the runs of weights whose scale is far more than they need: blocks of nvfp4 by more than twice,
	// runs of fp8 whose weights all lie below the normal numbers; one for a global scale that no fused matrix explains.
	Loose   int64   `json:"loose,omitempty"`
	OfBound float64 `json:"ofBound"`     // largest error over what the bound allows there; 1e300 for what is not finite
	RMS     float64 `json:"relativeRMS"` // root of the mean square error over that of the source
}

// Follows tells whether every code of a quantized matrix is the nearest one and
// its scales are no larger and no smaller than such weights need: beyond the bound alone, which
// any scale can meet.
func (t TensorResult) Follows() bool {
	return t.Outcome == Bounded && t.Nearest == int64(t.Weights) && t.Saturated == 0 && t.Loose == 0 && t.RMS <= t.Format.usual()
}

// Result is what a folder is to a source.
type Result struct {
	Tensors  []TensorResult    `json:"tensors"`
	Findings []kernels.Finding `json:"findings"`
	Notes    []string          `json:"notes"`
	Verdict  kernels.Verdict   `json:"verdict"`
}

// What the bytes cannot tell, as notes say it.
const (
	noteBound   = "Quantized matrices are proven within the error bound, not recomputed: the scales are the tool's choice, and an edit that stays within a code's cell cannot be seen."
	noteLearned = "Quantizations that compensate errors in other weights (GPTQ, AWQ, SVDQuant, rotations) leave the bound: from the bytes they cannot be told from an edit."
	noteScales  = "Scales of activations and of the KV cache come from calibration data: the source's weights say nothing about them."
)

// Tensor finds a tensor's result by its name in the source.
func (r Result) Tensor(name string) (TensorResult, bool) {
	for _, t := range r.Tensors {
		if t.Name == name {
			return t, true
		}
	}
	return TensorResult{}, false
}

// Compare tells what a quantized folder is to the unquantized Hugging Face
// folder source: every quantized weight within its bound, every other tensor
// the same bits. Tensors are read once, in chunks. The error is that of
// reading, of ctx, or of a source that is no snapshot.
func Compare(ctx context.Context, source fs.FS, m *Model) (Result, error) {
	return compareSome(ctx, source, m, nil)
}

// compareSome compares some of the source's tensors, all where only is nil.
func compareSome(ctx context.Context, source fs.FS, m *Model, only map[string]bool) (Result, error) {
	src, err := safetensors.OpenSnapshot(source)
	if err != nil {
		return Result{}, fmt.Errorf("compressed: source: %w", err)
	}
	defer src.Close()
	r := Result{Tensors: []TensorResult{}, Findings: []kernels.Finding{}, Notes: []string{}}
	matrices, plain := map[string]Matrix{}, map[string]safetensors.SnapshotTensor{}
	for _, one := range m.Matrices {
		matrices[one.Weight()] = one
	}
	for _, t := range m.Plain {
		plain[t.Name] = t
	}
	for _, s := range src.Tensors() {
		if only != nil && !only[s.Name] {
			continue
		}
		one := TensorResult{Name: s.Name, Weights: s.Elements(), Outcome: Differs}
		if matrix, ok := matrices[s.Name]; ok {
			err = r.quantized(ctx, src, s, m, matrix, &one)
		} else if t, ok := plain[s.Name]; ok {
			err = r.untouched(ctx, src, s, m, t, &one)
		} else {
			r.find(CheckMissing, s.Name, "in the source only", "a tensor of the folder")
		}
		if err != nil {
			return r, err
		}
		r.Tensors = append(r.Tensors, one)
	}
	if only == nil {
		r.extra(src, m)
	}
	r.judge(m)
	return r, nil
}

func (r *Result) find(check, where, got, want string) {
	r.Findings = append(r.Findings, kernels.Finding{Check: check, Where: where, Got: got, Want: want})
}

// extra names the folder's tensors that the source does not have.
func (r *Result) extra(src *safetensors.Snapshot, m *Model) {
	var names []string
	for _, one := range m.Matrices {
		names = append(names, one.Weight())
	}
	for _, t := range m.Plain {
		names = append(names, t.Name)
	}
	for _, name := range names {
		if _, ok := src.Lookup(name); !ok {
			r.find(CheckNoSource, name, "in the folder only", "a tensor of the source")
		}
	}
}

func (r *Result) judge(m *Model) {
	r.Verdict = kernels.Passed
	if len(r.Findings) > 0 {
		r.Verdict = kernels.Failed
		r.Notes = append(r.Notes, noteLearned)
	}
	if len(m.Matrices) > 0 {
		r.Notes = append(r.Notes, noteBound)
	}
	if len(m.Scales) > 0 {
		r.Notes = append(r.Notes, noteScales)
	}
}

// untouched compares a tensor that is stored as it is.
func (r *Result) untouched(ctx context.Context, src *safetensors.Snapshot, s safetensors.SnapshotTensor, m *Model, t safetensors.SnapshotTensor, one *TensorResult) error {
	if s.DType != t.DType || !slices.Equal(s.Shape, t.Shape) {
		r.find(CheckUntouched, s.Name, fmt.Sprintf("%s %v", t.DType, t.Shape), fmt.Sprintf("%s %v, as in the source", s.DType, s.Shape))
		return nil
	}
	at, err := folder.FirstDifference(ctx, src.Section(s), m.Snapshot.Section(t))
	if err != nil {
		return err
	}
	one.Outcome = Same
	if at >= 0 {
		one.Outcome = Differs
		r.find(CheckUntouched, fmt.Sprintf("%s: byte %d of %d", s.Name, at, t.End-t.Begin), "other bits", "the source's")
	}
	return nil
}

// quantized bounds the errors of a matrix.
func (r *Result) quantized(ctx context.Context, src *safetensors.Snapshot, s safetensors.SnapshotTensor, m *Model, matrix Matrix, one *TensorResult) error {
	one.Format, one.Layout = matrix.Format, matrix.Layout
	if !slices.Equal(s.Shape, []uint64{matrix.Rows, matrix.Columns}) {
		r.find(CheckTensor, s.Name, fmt.Sprintf("shape [%d %d]", matrix.Rows, matrix.Columns), fmt.Sprintf("%v, as in the source", s.Shape))
		return nil
	}
	own, ok := number.Of(s.DType)
	if !ok {
		r.find(CheckTensor, s.Name, "a source of "+string(s.DType), "F32, F16 or BF16")
		return nil
	}
	rd, err := newReader(m, matrix)
	if err != nil {
		return err
	}
	judges := make([]*judge, lanes)
	for i := range judges {
		judges[i] = newJudge(matrix.Format)
	}
	var spans []span
	values, codes, raw := make([]float32, chunk), make([]byte, chunk), make([]byte, chunk*own.Bytes)
	in := src.Section(s)
	for done := uint64(0); done < rd.weights(); {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(chunk, rd.weights()-done)
		if err := rd.read(codes[:n]); err != nil {
			return err
		}
		if _, err := io.ReadFull(in, raw[:int(n)*own.Bytes]); err != nil {
			return fmt.Errorf("compressed: source: %s: read: %w", s.Name, err)
		}
		own.Decode(values[:n], raw)
		spans = spans[:0]
		for i := uint64(0); i < n; {
			k, scale, err := rd.span(min(n-i, chunk/lanes))
			if err != nil {
				return err
			}
			if total := float64(scale) * rd.global; !(total >= 0) || math.IsInf(total, 1) {
				r.find(CheckScale, fmt.Sprintf("%s: weight %d", matrix.Scale.Name, done+i), fmt.Sprint(total), "a finite scale that is not negative")
				return nil
			}
			spans = append(spans, span{i, i + k, float64(scale)})
			i += k
		}
		judgeSpans(judges, spans, codes, values, rd.global, int64(done))
		done += n
	}
	j := judges[0]
	for _, other := range judges[1:] {
		j.merge(other)
	}
	one.Outside, one.Saturated, one.Nearest, one.Loose, one.OfBound = j.outside, j.saturated, j.nearest, j.loose, min(j.ofBound, 1e300)
	if j.sumSource > 0 {
		one.RMS = min(math.Sqrt(j.sumError/j.sumSource), 1e300)
	}
	if j.outside > 0 {
		at := uint64(j.first)
		r.find(CheckRebuilt, fmt.Sprintf("%s: row %d, column %d", s.Name, at/matrix.Columns, at%matrix.Columns),
			fmt.Sprintf("%d of %d weights beyond the bound, the worst %.4g times", j.outside, rd.weights(), one.OfBound),
			"every weight within half the spacing of its code times the scale")
		return nil
	}
	if one.RMS >= lost {
		r.find(CheckScale, s.Name, fmt.Sprintf("a relative error of %.3g: codes that follow from scales that do not fit the weights", one.RMS), fmt.Sprintf("below %g", lost))
		return nil
	}
	if matrix.Format == NVFP4 && j.top > 0 && float64(j.top)*spread < 6*448*rd.global {
		one.Loose++
	}
	one.Outcome = Bounded
	return nil
}

// span is a run of a chunk's weights that share a block's scale.
type span struct {
	from, to uint64
	scale    float64
}

// lanes are the parts of a chunk that are judged at the same time. Their number
// is fixed, so that sums do not depend on the machine.
const lanes = 4

func judgeSpans(judges []*judge, spans []span, codes []byte, w []float32, global float64, at int64) {
	var wait sync.WaitGroup
	for k, j := range judges {
		wait.Go(func() {
			for _, s := range spans[len(spans)*k/lanes : len(spans)*(k+1)/lanes] {
				j.span(codes[s.from:s.to], w[s.from:s.to], s.scale, global, at+int64(s.from))
			}
		})
	}
	wait.Wait()
}
