package convert

import (
	"fmt"
	"io"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/quant"
)

// plusOne reads rows as F32 with 1 added to every weight. The sum is rounded as
// the converter's tensors are: to F32, and to F16 where the weights are stored so.
func plusOne(rows Rows) (Rows, error) {
	to, err := quant.Writer(gguf.F32)
	if err != nil {
		return Rows{}, err
	}
	v := view{rows: rows, to: to, change: func(weights []float32) {
		for i, w := range weights {
			weights[i] = w + 1
		}
	}}
	if rows.Codec.Type == gguf.F16 {
		half, err := quant.Writer(gguf.F16)
		if err != nil {
			return Rows{}, err
		}
		add := v.change
		v.change = func(weights []float32) {
			add(weights)
			stored := make([]byte, half.Size(int64(len(weights))))
			half.Quantize(stored, weights)
			half.Dequantize(weights, stored)
		}
	}
	f32, err := quant.For(gguf.F32)
	if err != nil {
		return Rows{}, err
	}
	return Rows{R: v, Codec: f32, Count: rows.Count, Width: rows.Width}, nil
}

// view reads weights through a pointwise change, in the bytes of another type of one weight a block.
type view struct {
	rows   Rows
	to     quant.Codec
	change func([]float32)
}

// viewChunk is the number of weights that a view holds at once.
const viewChunk = 4096

// ReadAt reads whole weights: off and the length of p are multiples of the type's size.
func (v view) ReadAt(p []byte, off int64) (int, error) {
	each := int64(v.to.Bytes)
	if off%each != 0 || int64(len(p))%each != 0 || off < 0 {
		return 0, fmt.Errorf("read %d bytes at byte %d: want whole weights of %d bytes", len(p), off, each)
	}
	n := min(int64(len(p))/each, viewChunk)
	raw, floats := make([]byte, v.rows.Codec.Size(n)), make([]float32, n)
	read := 0
	for read < len(p) {
		first := (off + int64(read)) / each
		n := min(int64(len(p)-read)/each, viewChunk, v.rows.Weights()-first)
		if n <= 0 {
			return read, io.EOF
		}
		raw, floats := raw[:v.rows.Codec.Size(n)], floats[:n]
		if err := v.rows.Raw(raw, first); err != nil {
			return read, err
		}
		v.rows.Codec.Dequantize(floats, raw)
		v.change(floats)
		v.to.Quantize(p[read:][:n*each], floats)
		read += int(n * each)
	}
	return read, nil
}
