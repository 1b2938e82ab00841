package compressed

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/weighmaster/weighmaster/kernels/lowfloat"
	"github.com/weighmaster/weighmaster/kernels/number"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// chunk is the number of weights that are held at once.
const chunk = 1 << 16

// page is the number of scales that are held at once.
const page = 1 << 12

// scales reads the numbers of a tensor at any index, a page at a time.
type scales struct {
	r      io.ReaderAt
	dtype  safetensors.DType
	size   uint64 // elements
	first  uint64
	values []float32
	raw    []byte
}

func newScales(s *safetensors.Snapshot, t safetensors.SnapshotTensor) *scales {
	return &scales{r: s.Section(t), dtype: t.DType, size: t.Elements()}
}

// at gives one number.
func (s *scales) at(i uint64) (float32, error) {
	if i >= s.first && i-s.first < uint64(len(s.values)) {
		return s.values[i-s.first], nil
	}
	s.first = i / page * page
	n := int(min(page, s.size-s.first))
	width := s.dtype.Bits() / 8
	s.raw = slices.Grow(s.raw[:0], n*width)[:n*width]
	if got, err := s.r.ReadAt(s.raw, int64(s.first)*int64(width)); got < len(s.raw) {
		return 0, fmt.Errorf("compressed: read scales: %w", err)
	}
	s.values = slices.Grow(s.values[:0], n)[:n]
	if t, ok := number.Of(s.dtype); ok {
		t.Decode(s.values, s.raw)
		return s.values[i-s.first], nil
	}
	for k, b := range s.raw {
		s.values[k] = lowfloat.E4M3(b)
	}
	return s.values[i-s.first], nil
}

// reader reads the weights of a matrix in order of rows.
type reader struct {
	matrix Matrix
	codes  io.Reader
	scales *scales
	global float64
	raw    []byte

	at  uint64 // next weight
	run uint64 // weights to the end of the run that shares a scale
	// scale is that of the run, as stored.
	scale float32
}

func newReader(m *Model, one Matrix) (*reader, error) {
	r := &reader{matrix: one, codes: m.Snapshot.Section(one.Codes), scales: newScales(m.Snapshot, one.Scale), global: 1}
	if one.Global == nil {
		return r, nil
	}
	var raw [4]byte
	if n, err := m.Snapshot.Section(*one.Global).ReadAt(raw[:], 0); n < 4 {
		return nil, fmt.Errorf("compressed: read %s: %w", one.Global.Name, err)
	}
	r.global = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[:])))
	if one.Reciprocal {
		r.global = 1 / r.global
	}
	return r, nil
}

// weights is the number of weights.
func (r *reader) weights() uint64 { return r.matrix.Rows * r.matrix.Columns }

// read gives the codes of the next n weights; n is even for nvfp4.
func (r *reader) read(codes []byte) error {
	packed := len(codes)
	if r.matrix.Format == NVFP4 {
		packed /= 2
	}
	if cap(r.raw) < packed {
		r.raw = make([]byte, packed)
	}
	r.raw = r.raw[:packed]
	if _, err := io.ReadFull(r.codes, r.raw); err != nil {
		return fmt.Errorf("compressed: %s: read: %w", r.matrix.Codes.Name, err)
	}
	if r.matrix.Format == FP8 {
		copy(codes, r.raw)
		return nil
	}
	for i, b := range r.raw {
		codes[2*i], codes[2*i+1] = b&15, b>>4
	}
	return nil
}

// span gives the number of the next weights, at most limit, that share a scale,
// and that scale; it goes on to the weight after them.
func (r *reader) span(limit uint64) (n uint64, scale float32, err error) {
	if r.run == 0 {
		row, column := r.at/r.matrix.Columns, r.at%r.matrix.Columns
		index, end := uint64(0), r.matrix.Columns
		switch r.matrix.Layout {
		case PerTensor:
			end = column + (r.weights() - r.at)
		case PerChannel:
			index = row
		case PerBlock:
			block := column / r.matrix.BlockColumns
			index = row/r.matrix.BlockRows*ceil(r.matrix.Columns, r.matrix.BlockColumns) + block
			end = min((block+1)*r.matrix.BlockColumns, end)
		case PerGroup:
			index = r.at / 16
			end = column/16*16 + 16
		}
		r.run = end - column
		if r.scale, err = r.scales.at(index); err != nil {
			return 0, 0, err
		}
	}
	n = min(r.run, limit)
	r.run -= n
	r.at += n
	return n, r.scale, nil
}

// value is the number of a code.
func (f Format) value(code byte) float32 {
	if f == FP8 {
		return lowfloat.E4M3(code)
	}
	return lowfloat.E2M1(code)
}

// Dequantize gives the weights [from, from+len(dst)) of a matrix, by rows, as
// the tools' own arithmetic in float32 does: code times scale, for nvfp4 the
// block's scale times the global one first.
func (m *Model) Dequantize(one Matrix, dst []float32, from uint64) error {
	if from > one.Rows*one.Columns || uint64(len(dst)) > one.Rows*one.Columns-from {
		return fmt.Errorf("compressed: %s: weights [%d, %d): got a range beyond %d weights", one.Name, from, from+uint64(len(dst)), one.Rows*one.Columns)
	}
	if one.Format == NVFP4 && from%2 != 0 {
		return fmt.Errorf("compressed: %s: got a start at weight %d, want an even one: two weights are a byte", one.Name, from)
	}
	r, err := newReader(m, one)
	if err != nil {
		return err
	}
	offset := int64(from)
	if one.Format == NVFP4 {
		offset = int64(from / 2)
	}
	section := m.Snapshot.Section(one.Codes)
	r.codes = io.NewSectionReader(section, offset, section.Size()-offset)
	r.at = from
	global := float32(r.global)
	codes := make([]byte, chunk)
	for done := 0; done < len(dst); {
		n := min(chunk, len(dst)-done)
		whole := n
		if one.Format == NVFP4 {
			whole += n % 2
		}
		if err := r.read(codes[:whole]); err != nil {
			return err
		}
		for i := 0; i < n; {
			k, scale, err := r.span(uint64(n - i))
			if err != nil {
				return err
			}
			if one.Global != nil {
				scale = float32(scale * global)
			}
			for range k {
				dst[done+i] = float32(one.Format.value(codes[i]) * scale)
				i++
			}
		}
		done += n
	}
	return nil
}
