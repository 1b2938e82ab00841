package convert

import (
	"context"
	"fmt"
	"io"

	"github.com/weighmaster/weighmaster/kernels/quant"
)

// Order gives the source row of a row in the product.
type Order func(row int64) int64

// HeadOrder is the order of Q and K rows in GGUF. A checkpoint holds, in each
// head of d rows, first the d/2 rows of the rotation's real parts, then those of
// its imaginary parts; GGUF holds them in turn: row h·d + 2j + s comes from row
// h·d + s·d/2 + j, s being 0 or 1. heads divides rows, and d is even: see [Permutes].
func HeadOrder(rows, heads int64) Order {
	d := rows / heads
	return func(row int64) int64 {
		head, in := row-row%d, row%d
		return head + in%2*(d/2) + in/2
	}
}

// Permutes tells whether rows can be permuted for that many heads.
func Permutes(rows, heads int64) bool {
	return heads > 0 && rows > 0 && rows%heads == 0 && rows/heads%2 == 0
}

// Rows reads a stored matrix in the row order of GGUF. One-dimensional tensors
// have one row, or one weight a row where a head order moves single weights.
type Rows struct {
	R     io.ReaderAt // the tensor's bytes
	Codec quant.Codec // of the stored weights
	Count int64       // rows
	Width int64       // weights per row
	Order Order       // nil: as stored. Only for codecs of one weight per block
}

// Weights is the number of weights.
func (r Rows) Weights() int64 { return r.Count * r.Width }

// Raw reads the stored bytes of the weights from first on, in product order.
// first and the weights of dst are multiples of the codec's block.
func (r Rows) Raw(dst []byte, first int64) error {
	each, per := int64(r.Codec.Bytes), int64(r.Codec.Weights)
	if r.Order == nil {
		return r.read(dst, first/per*each)
	}
	for len(dst) > 0 {
		row, column := first/r.Width, first%r.Width
		n := min(r.Width-column, int64(len(dst))/each)
		if err := r.read(dst[:n*each], (r.Order(row)*r.Width+column)*each); err != nil {
			return err
		}
		dst, first = dst[n*each:], first+n
	}
	return nil
}

func (r Rows) read(dst []byte, offset int64) error {
	n, err := r.R.ReadAt(dst, offset)
	if n == len(dst) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read %d bytes at byte %d of the tensor: got %d: %w", len(dst), offset, n, err)
}

// chunk is the number of weights that are held at once: a multiple of every block length.
const chunk = 64 << 10

// copyAs writes the weights in another type's bytes, a chunk at a time.
func (r Rows) copyAs(ctx context.Context, w io.Writer, to quant.Codec) error {
	total := r.Weights()
	raw := make([]byte, r.Codec.Size(min(chunk, total)))
	floats := make([]float32, min(chunk, total))
	out := make([]byte, to.Size(min(chunk, total)))
	for first := int64(0); first < total; first += chunk {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(chunk, total-first)
		raw, floats, out := raw[:r.Codec.Size(n)], floats[:n], out[:to.Size(n)]
		if err := r.Raw(raw, first); err != nil {
			return err
		}
		r.Codec.Dequantize(floats, raw)
		to.Quantize(out, floats)
		if _, err := w.Write(out); err != nil {
			return err
		}
	}
	return nil
}
