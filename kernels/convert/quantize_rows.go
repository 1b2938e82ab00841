package convert

import (
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"sync"

	"github.com/weighmaster/weighmaster/kernels/imatrix"
	"github.com/weighmaster/weighmaster/kernels/quant"
)

// quantizeJob writes one tensor.
type quantizeJob struct {
	name   string
	dims   []uint64
	r      *io.SectionReader // the source's bytes, little-endian
	from   quant.Codec       // zero where the bytes are copied
	to     quant.Quantizer
	check  quant.Codec     // reads what was made
	matrix *imatrix.Matrix // nil for none
}

func (j *quantizeJob) experts() int64 {
	if len(j.dims) < 3 {
		return 1
	}
	return int64(j.dims[2])
}

// inFlight bounds the weights that are held at once, over all workers, unless single rows are longer.
const inFlight = 4 << 20

// write quantizes several chunks at once and writes them in order. A chunk is
// whole rows of one expert, because an expert's rows share their importance.
func (j *quantizeJob) write(ctx context.Context, w io.Writer) error {
	if j.from.Bytes == 0 {
		_, err := io.Copy(w, contextReader{ctx, io.NewSectionReader(j.r, 0, j.r.Size())})
		return err
	}
	width := int64(j.dims[0])
	perExpert := int64(1)
	if len(j.dims) > 1 {
		perExpert = int64(j.dims[1])
	}
	var importance []float32
	if j.matrix != nil {
		var err error
		if importance, _, err = j.matrix.Weights(j.name); err != nil {
			return err
		}
	}
	rows := min(max(1, chunk/width), perExpert)
	workers := make([]rowsWorker, max(1, min(int64(runtime.GOMAXPROCS(0)), inFlight/(rows*width))))
	for i := range workers {
		workers[i] = newRowsWorker(j, rows, width)
	}
	expert, row := int64(0), int64(0)
	for expert < j.experts() {
		if err := ctx.Err(); err != nil {
			return err
		}
		var wait sync.WaitGroup
		busy := 0
		for ; busy < len(workers) && expert < j.experts(); busy++ {
			own := &workers[busy]
			own.first, own.count = expert*perExpert+row, min(rows, perExpert-row)
			own.importance = nil
			if importance != nil {
				own.importance = importance[expert*width : (expert+1)*width]
			}
			wait.Go(own.run)
			if row += own.count; row == perExpert {
				expert, row = expert+1, 0
			}
		}
		wait.Wait()
		for i := range busy {
			if workers[i].err != nil {
				return workers[i].err
			}
			if _, err := w.Write(workers[i].out[:workers[i].size]); err != nil {
				return err
			}
		}
	}
	return nil
}

// rowsWorker quantizes a chunk of rows in its own memory.
type rowsWorker struct {
	j          *quantizeJob
	width      int64
	raw, out   []byte
	floats     []float32
	back       []float32
	importance []float32 // of the columns, nil for none

	first, count int64 // rows
	size         int64 // bytes of out that are used
	err          error
}

func newRowsWorker(j *quantizeJob, rows, width int64) rowsWorker {
	n := rows * width
	return rowsWorker{j: j, width: width, raw: make([]byte, j.from.Size(n)), out: make([]byte, j.check.Size(n)),
		floats: make([]float32, n), back: make([]float32, min(n, checked))}
}

// checked is how many weights are read back at once: a multiple of every block.
const checked = 4 << 10

func (k *rowsWorker) run() {
	n := k.count * k.width
	raw, floats := k.raw[:k.j.from.Size(n)], k.floats[:n]
	k.size = k.j.check.Size(n)
	out := k.out[:k.size]
	at := k.j.from.Size(k.first * k.width)
	if _, k.err = io.ReadFull(io.NewSectionReader(k.j.r, at, int64(len(raw))), raw); k.err != nil {
		return
	}
	k.j.from.Dequantize(floats, raw)
	if i := notFinite(floats); i >= 0 {
		k.err = k.bad("weight", int64(i), floats[i])
		return
	}
	k.j.to.Rows(out, floats, int(k.width), k.importance)
	for done := int64(0); done < n; done += checked {
		back := k.back[:min(checked, n-done)]
		k.j.check.Dequantize(back, out[k.j.check.Size(done):k.j.check.Size(done+int64(len(back)))])
		if i := notFinite(back); i >= 0 {
			k.err = k.bad("weight as "+k.j.to.Type.String(), done+int64(i), back[i])
			return
		}
	}
}

func (k *rowsWorker) bad(what string, at int64, got float32) error {
	return fmt.Errorf("row %d column %d: %s: got %v, want a finite number; llama-quantize gives up here", k.first+at/k.width, at%k.width, what, got)
}

// notFinite finds the first NaN or infinity, -1 for none.
func notFinite(s []float32) int {
	const exponent = 0x7f800000
	for i, f := range s {
		if math.Float32bits(f)&exponent == exponent {
			return i
		}
	}
	return -1
}

// contextReader ends with its context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
