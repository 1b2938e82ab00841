package imatrix

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

const (
	sumsSuffix   = ".in_sum2"
	countsSuffix = ".counts"

	keyDatasets  = "imatrix.datasets"
	keyChunks    = "imatrix.chunk_count"
	keyChunkSize = "imatrix.chunk_size"
)

func (m *Matrix) openGGUF() error {
	f, err := gguf.Open(m.r, m.Size)
	if err != nil {
		return fmt.Errorf("imatrix: %w", err)
	}
	m.order = f.Order
	if err := m.ggufKeys(f); err != nil {
		return err
	}
	for _, t := range f.Tensors {
		name, isSums := strings.CutSuffix(t.Name, sumsSuffix)
		other := name + countsSuffix
		if !isSums {
			var isCounts bool
			if name, isCounts = strings.CutSuffix(t.Name, countsSuffix); !isCounts {
				m.Ignored = append(m.Ignored, t.Name)
				continue
			}
			other = name + sumsSuffix
		}
		pair, ok := f.Tensor(other)
		if !ok {
			return &FormatError{Offset: t.Offset, What: fmt.Sprintf("tensor %q", t.Name), Got: fmt.Sprintf("no tensor %q", other), Want: "sums and counts of each weight"}
		}
		if !isSums {
			continue // taken with its sums
		}
		if err := m.ggufEntry(f, name, t, pair); err != nil {
			return err
		}
	}
	if len(m.Entries) == 0 {
		return &FormatError{Offset: f.DataOffset, What: "tensors", Got: "no sums of any weight", Want: "at least one tensor named …" + sumsSuffix, Next: "this is a GGUF file, but no importance matrix"}
	}
	return nil
}

// ggufKeys reads the keys without which llama-quantize refuses the file.
func (m *Matrix) ggufKeys(f *gguf.File) error {
	bad := func(key, got, want string) error {
		return &FormatError{What: fmt.Sprintf("key %q", key), Got: got, Want: want, Next: "llama-quantize takes no importance matrix without this key"}
	}
	datasets, ok := f.KV(keyDatasets)
	switch {
	case !ok:
		return bad(keyDatasets, "none", "an array of strings")
	case datasets.Type != gguf.TypeArray || datasets.Elem != gguf.TypeString:
		return bad(keyDatasets, datasets.Type.String(), "an array of strings")
	}
	m.Datasets = datasets.Strings()
	for _, k := range []struct {
		key string
		to  *int64
	}{{keyChunks, &m.Chunks}, {keyChunkSize, &m.ChunkSize}} {
		v, ok := f.KV(k.key)
		n, isInt := v.Int()
		switch {
		case !ok:
			return bad(k.key, "none", "a UINT32")
		case v.Type != gguf.TypeUint32 || !isInt || n > math.MaxInt32:
			return bad(k.key, v.String(), "a UINT32 below 2^31")
		}
		*k.to = n
	}
	return nil
}

func (m *Matrix) ggufEntry(f *gguf.File, name string, sums, counts gguf.TensorInfo) error {
	for _, t := range []gguf.TensorInfo{sums, counts} {
		if t.Type != gguf.F32 {
			return &FormatError{Offset: t.Offset, What: fmt.Sprintf("tensor %q", t.Name), Got: "type " + t.Type.String(), Want: "F32"}
		}
	}
	values, experts := int64(sums.Elements()), int64(counts.Elements())
	switch {
	case name == "":
		return &FormatError{Offset: sums.Offset, What: "tensor " + sums.Name, Got: "sums of a weight without a name", Want: "a name"}
	case values > MaxValues || experts > MaxEntries:
		return &FormatError{Offset: sums.Offset, What: fmt.Sprintf("tensor %q", sums.Name), Got: fmt.Sprintf("%d sums and %d counts", values, experts), Want: fmt.Sprintf("at most %d and %d", int64(MaxValues), MaxEntries)}
	case values%experts != 0 || len(sums.Dims) > 0 && experts > 1 && int64(sums.Dims[0]) != values/experts:
		return &FormatError{Offset: counts.Offset, What: fmt.Sprintf("tensor %q", counts.Name), Got: fmt.Sprintf("%d counts for sums of shape %v", experts, sums.Dims), Want: "one count for each row of sums, or one for all"}
	}
	raw, err := io.ReadAll(f.Section(counts))
	if err == nil && int64(len(raw)) != 4*experts {
		err = errors.New("the file ends here")
	}
	if err != nil {
		return fmt.Errorf("imatrix: tensor %q: %w", counts.Name, err)
	}
	e := Entry{Name: name, Width: values / experts, Experts: experts, Counts: make([]float32, experts), Offset: sums.Offset}
	m.floats(e.Counts, raw)
	return m.add(e, sums.Offset)
}
