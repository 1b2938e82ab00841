package imatrix

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// control plants one fault and gives what the checks then say.
type control struct {
	name, fault, want string
	plant             func(m *Matrix, tensors []gguf.TensorInfo) []kernels.Finding
}

var controls = []control{
	{"the last byte cut off", "truncated file", CheckFormat, func(m *Matrix, _ []gguf.TensorInfo) []kernels.Finding {
		return reopen(m, m.Size-1)
	}},
	{"a NaN in the first entry", "sum that is no number", CheckFinite, func(m *Matrix, t []gguf.TensorInfo) []kernels.Finding {
		return m.withSums(float32(math.NaN()), 1).Validate(t)
	}},
	{"an infinite sum in the first entry", "infinite sum", CheckFinite, func(m *Matrix, t []gguf.TensorInfo) []kernels.Finding {
		return m.withSums(float32(math.Inf(1)), 1).Validate(t)
	}},
	{"a negative sum in the first entry", "negative sum", CheckNegative, func(m *Matrix, t []gguf.TensorInfo) []kernels.Finding {
		return m.withSums(-1, 1).Validate(t)
	}},
	{"the first block of the first entry zero", "block of zeros", CheckZeros, func(m *Matrix, t []gguf.TensorInfo) []kernels.Finding {
		return m.withSums(0, int(min(ZeroBlock, m.Entries[m.used()].Width))).Validate(t)
	}},
	{"the first count not a whole number", "count that is no number of activations", CheckCounts, func(m *Matrix, t []gguf.TensorInfo) []kernels.Finding {
		return m.withCounts(func(c []float32) { c[0] = -0.5 }).Validate(t)
	}},
	{"twice the activations in the first entry", "counts of different runs", CheckDisagree, func(m *Matrix, t []gguf.TensorInfo) []kernels.Finding {
		return m.withPlain().withCounts(func(c []float32) { c[0] = 2*c[0] + 1 }).Validate(nil)
	}},
	{"another number of chunks", "chunk count that is not the counts'", CheckChunks, func(m *Matrix, _ []gguf.TensorInfo) []kernels.Finding {
		c := *m
		c.Chunks = c.Chunks + 1 + int64(c.highest())
		return c.Validate(nil)
	}},
	{"an expert without activations", "expert without data", CheckExperts, func(*Matrix, []gguf.TensorInfo) []kernels.Finding {
		return routedSample().withCounts(func(c []float32) { c[0] += c[1]; c[1] = 0 }).Validate(nil)
	}},
	{"the first entry taken out", "missing entry", CheckMissing, func(m *Matrix, t []gguf.TensorInfo) []kernels.Finding {
		return m.without(m.used()).Validate(t)
	}},
	{"an entry of a weight that the model lacks", "entry of another model", CheckForeign, func(m *Matrix, t []gguf.TensorInfo) []kernels.Finding {
		return m.Validate(slices.DeleteFunc(slices.Clone(t), func(t gguf.TensorInfo) bool { return t.Name == m.Entries[m.used()].Name }))
	}},
	{"one column more in the model", "size of another model", CheckOtherSize, func(m *Matrix, t []gguf.TensorInfo) []kernels.Finding {
		return m.Validate(other(t, m.Entries[m.used()].Name, 0))
	}},
	{"one expert more in the model", "another number of experts", CheckOtherSize, func(m *Matrix, t []gguf.TensorInfo) []kernels.Finding {
		return m.Validate(other(t, m.Entries[m.used()].Name, 2))
	}},
}

// used is the first entry whose first expert has data.
func (m *Matrix) used() int {
	return max(0, slices.IndexFunc(m.Entries, func(e Entry) bool { return strings.HasPrefix(e.Name, "blk.") && e.Counts[0] > 0 }))
}

func (m *Matrix) highest() float32 {
	most := float32(0)
	for _, e := range m.Entries {
		most = max(most, slices.Max(e.Counts))
	}
	return most
}

func reopen(m *Matrix, size int64) []kernels.Finding {
	_, err := Open(m.r, size)
	f, refused := asFinding("copy", err)
	if !refused {
		return nil
	}
	return []kernels.Finding{f}
}

// withSums is a view whose first n sums of one entry read as x.
func (m *Matrix) withSums(x float32, n int) *Matrix {
	raw := make([]byte, 4*n)
	for i := range n {
		m.order.PutUint32(raw[4*i:], math.Float32bits(x))
	}
	c := *m
	c.r = kernels.Overlay{R: m.r, Patches: []kernels.Patch{{Offset: m.Entries[m.used()].Offset, Bytes: raw}}}
	return &c
}

// without is a copy without one entry.
func (m *Matrix) without(i int) *Matrix {
	c := *m
	c.Entries, c.byName = nil, map[string]int{}
	for k, e := range m.Entries {
		if k != i {
			c.byName[e.Name] = len(c.Entries)
			c.Entries = append(c.Entries, e)
		}
	}
	return &c
}

// withCounts is a copy with other counts of one entry.
func (m *Matrix) withCounts(change func(c []float32)) *Matrix {
	c := *m
	i := m.used()
	c.Entries = slices.Clone(m.Entries)
	c.Entries[i].Counts = slices.Clone(c.Entries[i].Counts)
	change(c.Entries[i].Counts)
	return &c
}

// withPlain is the matrix itself where it has two plain entries to compare,
// else a built-in one.
func (m *Matrix) withPlain() *Matrix {
	plain := 0
	for _, e := range m.Entries {
		if !e.routed() {
			plain++
		}
	}
	if plain >= 2 && !m.Entries[m.used()].routed() {
		return m
	}
	return opened(sample())
}

// other is the model with one more in one dimension of a weight.
func other(tensors []gguf.TensorInfo, name string, dim int) []gguf.TensorInfo {
	tensors = slices.Clone(tensors)
	for i, t := range tensors {
		if t.Name != name {
			continue
		}
		t.Dims = slices.Clone(t.Dims)
		for len(t.Dims) <= dim {
			t.Dims = append(t.Dims, 1)
		}
		t.Dims[dim]++
		tensors[i] = t
	}
	return tensors
}

// shapesOf makes up a model that the matrix fits, for controls without one.
func (m *Matrix) shapesOf() []gguf.TensorInfo {
	var tensors []gguf.TensorInfo
	for _, e := range m.Entries {
		tensors = append(tensors, gguf.TensorInfo{Name: e.Name, Dims: []uint64{uint64(e.Width), 2, uint64(e.Experts)}})
	}
	return tensors
}

// plant runs every control over a matrix that was accepted.
func plant(ctx context.Context, c *kernels.Controls, m *Matrix, tensors []gguf.TensorInfo) error {
	if tensors == nil {
		tensors = m.shapesOf()
	}
	for _, control := range controls {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.Judge(control.name, control.fault, control.plant(m, tensors), func(f kernels.Finding) bool { return f.Check == control.want })
	}
	return nil
}

// sampleContent is a small valid matrix.
func sampleContent() Content {
	return Content{Datasets: []string{"text"}, Chunks: 2, ChunkSize: 16, Entries: []Data{
		{"blk.0.attn_q.weight", []float32{32}, ramp(32)},
		{"blk.0.ffn_up.weight", []float32{32}, ramp(32)},
	}}
}

// sample is that matrix and the model that it belongs to.
func sample() ([]byte, []gguf.TensorInfo) {
	c := sampleContent()
	var tensors []gguf.TensorInfo
	for _, e := range c.Entries {
		tensors = append(tensors, gguf.TensorInfo{Name: e.Name, Dims: []uint64{uint64(len(e.Sums)), 4}})
	}
	return encode(c), tensors
}

// routedSample is a matrix with two experts.
func routedSample() *Matrix {
	return opened(encode(Content{Datasets: []string{"text"}, Chunks: 1, ChunkSize: 16,
		Entries: []Data{{"blk.0.ffn_up_exps.weight", []float32{20, 12}, ramp(64)}}}), nil)
}

func ramp(n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = 1 + float32(i)
	}
	return s
}

func encode(c Content) []byte {
	var b bytes.Buffer
	if err := WriteGGUF(&b, c); err != nil {
		panic(fmt.Sprintf("imatrix: the built-in matrix cannot be written: %v", err))
	}
	return b.Bytes()
}

func opened(b []byte, _ []gguf.TensorInfo) *Matrix {
	m, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		panic(fmt.Sprintf("imatrix: the built-in matrix is refused: %v", err))
	}
	return m
}
