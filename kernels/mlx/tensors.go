package mlx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/weighmaster/weighmaster/kernels/folder"
	"github.com/weighmaster/weighmaster/kernels/number"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// weights reads the weights of the source's tensors one after the other.
type weights struct {
	number number.Type
	r      io.Reader
	raw    []byte
}

func (c *comparison) weights(parts []safetensors.SnapshotTensor) weights {
	readers := make([]io.Reader, len(parts))
	for i, p := range parts {
		readers[i] = c.source.Section(p)
	}
	return weights{number: typeOf(parts[0].DType), r: io.MultiReader(readers...)}
}

func (w *weights) read(dst []float32) error {
	w.raw = resize(w.raw, len(dst)*w.number.Bytes)
	if _, err := io.ReadFull(w.r, w.raw); err != nil {
		return fmt.Errorf("mlx: source: read: %w", err)
	}
	w.number.Decode(dst, w.raw)
	return nil
}

func resize(b []byte, n int) []byte { return slices.Grow(b[:0], n)[:n] }

// untouched compares a tensor that is stored as it is: the same bits, or the
// source's weights correctly rounded to the tensor's type.
func (c *comparison) untouched(ctx context.Context, t Tensor, parts []safetensors.SnapshotTensor, one *TensorResult) error {
	from := parts[0].DType
	if from != t.Type && !(floating(from) && floating(t.Type)) {
		c.find(CheckUntouched, t.Name, string(t.Type), fmt.Sprintf("%s, as in the source, or another type of floats", from))
		return nil
	}
	one.Outcome = Same
	target := c.model.Snapshot.Section(t.Packed)
	readers := make([]io.Reader, len(parts))
	for i, p := range parts {
		readers[i] = c.source.Section(p)
	}
	size, width := int64(0), int64(t.Type.Bits())/8
	for _, p := range parts {
		size += p.End - p.Begin
	}
	if from == t.Type {
		at, err := folder.FirstDifference(ctx, io.MultiReader(readers...), target)
		if err != nil {
			return err
		}
		if at >= 0 {
			one.Outcome = Differs
			c.find(CheckUntouched, fmt.Sprintf("%s: element %d of %d", t.Name, at/max(width, 1), t.Elements()), "other bits", "the source's")
		}
		return nil
	}
	one.Outcome = Cast
	w, to := c.weights(parts), typeOf(t.Type)
	values := make([]float32, chunk)
	var want, got []byte
	for done := uint64(0); done < t.Elements(); {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(chunk, t.Elements()-done)
		if err := w.read(values[:n]); err != nil {
			return err
		}
		want = want[:0]
		for _, x := range values[:n] {
			want = to.Append(want, x)
		}
		got = resize(got, len(want))
		if _, err := io.ReadFull(target, got); err != nil {
			return fmt.Errorf("mlx: %s: read: %w", t.Name, err)
		}
		if !slices.Equal(want, got) {
			one.Outcome = Differs
			i := 0
			for want[i] == got[i] {
				i++
			}
			c.find(CheckUntouched, fmt.Sprintf("%s: element %d of %d", t.Name, done+uint64(i/to.Bytes), t.Elements()), "other bits", fmt.Sprintf("the source's %s rounded to %s", from, t.Type))
			return nil
		}
		done += n
	}
	return nil
}

// dtype is the type that the model's weights had when they were quantized: that
// of most tensors that are stored as they are.
func (m *Model) dtype() safetensors.DType {
	count := map[safetensors.DType]int{}
	var best safetensors.DType
	for _, t := range m.Tensors {
		if t.Scheme != nil && t.Scheme.Mode != Affine || !floating(t.Type) {
			continue
		}
		if count[t.Type]++; count[t.Type] > count[best] {
			best = t.Type
		}
	}
	return best
}

// quantized compares a quantized matrix, group by group.
func (c *comparison) quantized(ctx context.Context, t Tensor, parts []safetensors.SnapshotTensor, one *TensorResult) error {
	if !floating(parts[0].DType) {
		c.find(CheckRebuilt, t.Name, "a source of "+string(parts[0].DType), "F32, F16 or BF16")
		return nil
	}
	own := t.Type
	if t.Scheme.Mode != Affine {
		if own = c.model.dtype(); own == "" {
			own = parts[0].DType
		}
	}
	r := newMatrixReader(c.model, t, typeOf(own))
	judges := make([]*judge, lanes)
	for i := range judges {
		judges[i] = newJudge(t, typeOf(own), parts[0].DType)
	}
	w := c.weights(parts)
	perChunk := chunk / t.Scheme.Group
	values := make([]float32, perChunk*t.Scheme.Group)
	for done := uint64(0); done < r.groups; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := int(min(uint64(perChunk), r.groups-done))
		if err := r.read(n); err != nil {
			return err
		}
		part := values[:n*t.Scheme.Group]
		if err := w.read(part); err != nil {
			return err
		}
		if err := judgeChunk(judges, r, part, n, done); err != nil {
			return err
		}
		done += uint64(n)
	}
	for _, other := range judges[1:] {
		judges[0].merge(other)
	}
	c.conclude(t, judges[0], one)
	return nil
}

// lanes are the parts of a chunk that are judged at the same time. Their number
// is fixed, so that sums do not depend on the machine.
const lanes = 4

// judgeChunk judges the n groups that were read, whose first is the matrix's
// group done. A matrix with global scales is judged in order.
func judgeChunk(judges []*judge, r *matrixReader, w []float32, n int, done uint64) error {
	size := r.scheme.Group
	run := func(j *judge, from, to int) error {
		for i := from; i < to; i++ {
			g := r.group(i)
			if err := j.group(&g, w[i*size:(i+1)*size], done+uint64(i), r); err != nil {
				return err
			}
		}
		return nil
	}
	if r.global != nil {
		return run(judges[0], 0, n)
	}
	errs := make([]error, lanes)
	var wait sync.WaitGroup
	for k, j := range judges {
		wait.Go(func() { errs[k] = run(j, n*k/lanes, n*(k+1)/lanes) })
	}
	wait.Wait()
	return errors.Join(errs...)
}
