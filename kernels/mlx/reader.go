package mlx

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/weighmaster/weighmaster/kernels/number"
)

// matrixReader reads the groups of a quantized matrix in order. As rows are
// whole groups and groups whole words, a matrix is one run of groups.
type matrixReader struct {
	scheme         Scheme
	number         number.Type // of scales and biases, mode affine
	groups, perTop uint64      // all, and those of one matrix of a stack
	packed, scales io.Reader
	biases         io.Reader
	global         io.ReaderAt

	raw, rawScales, rawBiases, codes []byte
	decodedScales, decodedBiases     []float32
}

func newMatrixReader(m *Model, t Tensor, n number.Type) *matrixReader {
	r := &matrixReader{scheme: *t.Scheme, number: n, packed: m.Snapshot.Section(t.Packed), scales: m.Snapshot.Section(t.Scales)}
	r.groups = t.Elements() / uint64(t.Scheme.Group)
	r.perTop = r.groups
	if t.Scheme.Mode == Affine {
		r.biases = m.Snapshot.Section(t.Biases)
	}
	if t.Global != nil {
		r.global = m.Snapshot.Section(*t.Global)
		r.perTop = 1
		for _, d := range t.Shape[len(t.Shape)-2:] {
			r.perTop *= d
		}
		r.perTop /= uint64(t.Scheme.Group)
	}
	return r
}

// read fetches the next n groups.
func (r *matrixReader) read(n int) error {
	r.raw = resize(r.raw, n*r.scheme.groupBytes())
	r.codes = resize(r.codes, n*r.scheme.Group)
	width := 1
	if r.biases != nil {
		width = r.number.Bytes
	}
	r.rawScales = resize(r.rawScales, n*width)
	if _, err := io.ReadFull(r.packed, r.raw); err != nil {
		return fmt.Errorf("mlx: read codes: %w", err)
	}
	if _, err := io.ReadFull(r.scales, r.rawScales); err != nil {
		return fmt.Errorf("mlx: read scales: %w", err)
	}
	unpack(r.codes, r.raw, r.scheme.Bits)
	if r.biases == nil {
		return nil
	}
	r.rawBiases = resize(r.rawBiases, n*width)
	if _, err := io.ReadFull(r.biases, r.rawBiases); err != nil {
		return fmt.Errorf("mlx: read biases: %w", err)
	}
	r.decodedScales = slices.Grow(r.decodedScales[:0], n)[:n]
	r.decodedBiases = slices.Grow(r.decodedBiases[:0], n)[:n]
	r.number.Decode(r.decodedScales, r.rawScales)
	r.number.Decode(r.decodedBiases, r.rawBiases)
	return nil
}

// group gives the i-th group that was read.
func (r *matrixReader) group(i int) group {
	g := group{codes: r.codes[i*r.scheme.Group : (i+1)*r.scheme.Group]}
	if r.biases != nil {
		g.scale, g.bias = r.decodedScales[i], r.decodedBiases[i]
	} else {
		g.code = r.rawScales[i]
	}
	return g
}

// globalScale reads the global scale of the matrix that a group belongs to; 2688, which stands for 1, without one.
func (r *matrixReader) globalScale(index uint64) (float32, error) {
	if r.global == nil {
		return globalUnit, nil
	}
	var raw [4]byte
	if _, err := r.global.ReadAt(raw[:], int64(index/r.perTop)*4); err != nil {
		return 0, fmt.Errorf("mlx: read global scale: %w", err)
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(raw[:])), nil
}
