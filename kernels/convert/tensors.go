package convert

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/quant"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// storage gives the type in which a checkpoint's tensor is read.
var storage = map[safetensors.DType]gguf.Type{safetensors.BF16: gguf.BF16, safetensors.F16: gguf.F16, safetensors.F32: gguf.F32}

// maxMissing bounds how many missing tensors an error names.
const maxMissing = 10

// mapTensors fills Tensors in the converter's order.
func (m *Model) mapTensors() error {
	if err := m.longFactors(); err != nil {
		return err
	}
	a := m.Config.architecture
	all := append([]safetensors.SnapshotTensor(nil), m.snapshot.Tensors()...)
	sort.Slice(all, func(i, j int) bool {
		a, b := m.snapshot.Shards[all[i].Shard].Name, m.snapshot.Shards[all[j].Shard].Name
		return a < b || a == b && all[i].Name < all[j].Name
	})
	stacks := map[int64]int64{} // tensors of experts seen so far, by layer
	count := map[*Mapping]int64{}
	m.named = make(map[string]safetensors.SnapshotTensor, len(all))
	for _, t := range all {
		name, language := a.plainName(t.Name)
		if !language {
			continue
		}
		if other, twice := m.named[name]; twice {
			return fmt.Errorf("tensors %s and %s: got two of one meaning, want one", other.Name, t.Name)
		}
		m.named[name] = t
		mapping, layer, expert, ok := a.Find(name)
		switch {
		case !ok:
			return fmt.Errorf("tensor %s: got a name that no %s has; want every tensor mapped", t.Name, a.HF)
		case mapping.Transform == Drop:
			continue
		case layer >= m.Config.Layers:
			return fmt.Errorf("tensor %s: got a layer beyond the %d of config.json", t.Name, m.Config.Layers)
		case expert >= m.Config.experts() && expert >= 0:
			return fmt.Errorf("tensor %s: got an expert beyond the %d of config.json", t.Name, m.Config.experts())
		}
		if err := m.checkShape(t, mapping); err != nil {
			return err
		}
		count[mapping]++
		if !mapping.Stacks() {
			tensor, err := m.tensor(t, mapping, layer)
			if err != nil {
				return err
			}
			m.Tensors = append(m.Tensors, tensor)
			continue
		}
		if stacks[layer]++; stacks[layer] == m.Config.experts()*a.stacks() {
			if err := m.stack(layer); err != nil {
				return err
			}
		}
	}
	return m.checkComplete(count)
}

// stacks counts the products that a layer's experts give.
func (a *Architecture) stacks() int64 {
	var n int64
	for i := range a.Mappings {
		if a.Mappings[i].Stacks() {
			n++
		}
	}
	return n
}

// shape is what the config gives a mapping's tensors, slowest dimension first.
func (c *Config) shape(m *Mapping) []uint64 {
	shape := make([]uint64, len(m.Shape))
	for i, d := range m.Shape {
		shape[i] = uint64(c.dim(d))
	}
	return shape
}

func (m *Model) checkShape(t safetensors.SnapshotTensor, mapping *Mapping) error {
	if _, ok := storage[t.DType]; !ok {
		return fmt.Errorf("tensor %s: dtype: got %s, want BF16, F16 or F32", t.Name, t.DType)
	}
	if want := m.Config.shape(mapping); !slices.Equal(t.Shape, want) {
		return fmt.Errorf("tensor %s: shape: got %v, want %v by config.json", t.Name, t.Shape, want)
	}
	return nil
}

// tensor maps a checkpoint's tensor whose shape has been checked.
func (m *Model) tensor(t safetensors.SnapshotTensor, mapping *Mapping, layer int64) (Tensor, error) {
	codec, err := quant.For(storage[t.DType])
	if err != nil {
		return Tensor{}, err
	}
	shape := m.Config.shape(mapping)
	rows := Rows{R: m.snapshot.Section(t), Codec: codec, Count: 1, Width: int64(shape[len(shape)-1])}
	if len(shape) == 2 {
		rows.Count = int64(shape[0])
	}
	out := Tensor{Source: t.Name, Transform: mapping.Transform}
	switch heads := m.Config.HeadsOf(mapping.Transform); {
	case heads > 0:
		if len(shape) == 1 {
			rows.Count, rows.Width = rows.Width, 1
		}
		rows.Order = HeadOrder(rows.Count, heads)
	case mapping.Transform == AddOne:
		out.Wrong = []Wrong{{"the checkpoint's numbers as they stand, want 1 added to each", rows}}
		if rows, err = plusOne(rows); err != nil {
			return Tensor{}, err
		}
	}
	out.Rows = rows
	return out.named(mapping.product(layer), shape), nil
}

// named completes a tensor by its name in GGUF and its shape, slowest dimension first.
func (t Tensor) named(name string, shape []uint64) Tensor {
	t.Name, t.Type = name, gguf.BF16
	if alwaysF32(name, len(shape)) {
		t.Type = gguf.F32
	}
	t.Dims = slices.Clone(shape)
	slices.Reverse(t.Dims)
	return t
}

// alwaysF32 tells the tensors that the converter stores in F32 whatever is asked for.
func alwaysF32(name string, dimensions int) bool {
	return dimensions == 1 || strings.HasSuffix(name, "_norm.weight") || strings.HasSuffix(name, ".ffn_gate_inp.weight")
}

// stack makes the products of one layer's experts, whose tensors are all there.
func (m *Model) stack(layer int64) error {
	experts := m.Config.experts()
	for i := range m.Config.architecture.Mappings {
		mapping := &m.Config.architecture.Mappings[i]
		if !mapping.Stacks() {
			continue
		}
		shape := m.Config.shape(mapping)
		all := stacked{each: int64(shape[0] * shape[1])}
		var first safetensors.SnapshotTensor
		for e := range experts {
			t, ok := m.named[mapping.source(layer, e)]
			if e == 0 {
				first = t
			}
			if !ok || t.DType != first.DType {
				return fmt.Errorf("tensor %s: dtype: got %s, want %s as the first expert has it", t.Name, t.DType, first.DType)
			}
			all.parts = append(all.parts, m.snapshot.Section(t))
		}
		codec, err := quant.For(storage[first.DType])
		if err != nil {
			return err
		}
		all.each = codec.Size(all.each)
		out := Tensor{
			Source: strings.Replace(strings.Replace(mapping.HF, "{n}", fmt.Sprint(layer), 1), "{e}", "*", 1), Transform: mapping.Transform,
			Rows: Rows{R: all, Codec: codec, Count: experts * int64(shape[0]), Width: int64(shape[1])},
		}
		m.Tensors = append(m.Tensors, out.named(mapping.product(layer), append([]uint64{uint64(experts)}, shape...)))
	}
	return nil
}

// longFactors puts the lists of longrope scaling before all other tensors.
func (m *Model) longFactors() error {
	r := &m.Config.rope
	for _, list := range []struct {
		name, field string
		numbers     []float64
	}{{RopeLong, "long_factor", r.Long}, {RopeShort, "short_factor", r.Short}} {
		if len(list.numbers) == 0 {
			continue
		}
		numbers := make([]float32, len(list.numbers))
		for i, f := range list.numbers {
			numbers[i] = float32(f)
		}
		body, err := floatBytes(numbers)
		if err != nil {
			return err
		}
		codec, err := quant.For(gguf.F32)
		if err != nil {
			return err
		}
		out := Tensor{Source: "config.json: " + list.field, Rows: Rows{R: bytes.NewReader(body), Codec: codec, Count: 1, Width: int64(len(numbers))}}
		m.Tensors = append(m.Tensors, out.named(list.name, []uint64{uint64(len(numbers))}))
	}
	return nil
}

// checkComplete refuses a required tensor that is missing, and an optional one
// that only some layers have. count tells how many tensors each mapping has.
func (m *Model) checkComplete(count map[*Mapping]int64) error {
	a := m.Config.architecture
	var missing []string
	for i := range a.Mappings {
		mapping := &a.Mappings[i]
		layers, experts := int64(1), int64(1)
		if mapping.layered() {
			layers = m.Config.Layers
		}
		if mapping.Stacks() {
			experts = m.Config.experts()
		}
		if n := count[mapping]; mapping.Transform == Drop || n == layers*experts || n == 0 && mapping.Optional {
			continue
		}
		// Every step finds a tensor or a missing one, and the latter are few: no number of the config bounds the work.
		for at := int64(0); at < layers*experts && len(missing) <= maxMissing; at++ {
			name := mapping.source(at/experts, at%experts)
			if _, has := m.named[name]; !has {
				missing = append(missing, name)
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("snapshot: missing tensors: got none of %s, want every one that %d layers have", strings.Join(missing, ", "), m.Config.Layers)
	}
	return nil
}

// stacked reads several tensors of equal size as one after another.
type stacked struct {
	parts []io.ReaderAt
	each  int64 // bytes
}

func (s stacked) ReadAt(p []byte, off int64) (int, error) {
	read := 0
	for read < len(p) {
		i, in := off/s.each, off%s.each
		if off < 0 || i >= int64(len(s.parts)) {
			return read, io.EOF
		}
		want := min(s.each-in, int64(len(p)-read))
		n, err := s.parts[i].ReadAt(p[read:][:want], in)
		read, off = read+n, off+int64(n)
		if int64(n) < want {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return read, err
		}
	}
	return read, nil
}
