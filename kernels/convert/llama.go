package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sort"
	"strings"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/quant"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// Options are the choices that a snapshot does not determine.
type Options struct {
	// Name is general.name. The key is left out when it is empty. (The original
	// converter makes a title from the folder's name.)
	Name string
	// General are further general.… keys, written after general.size_label as they stand.
	General []gguf.KV
}

// Tensor is one tensor of the GGUF that a snapshot gives.
type Tensor struct {
	Name      string    // in GGUF
	Source    string    // in the checkpoint
	Dims      []uint64  // GGUF order, fastest first
	Type      gguf.Type // F32 or BF16: what the conversion stores
	Transform Transform
	Rows      Rows
}

// Model is an opened snapshot of a LlamaForCausalLM.
type Model struct {
	Config  Config
	Tensors []Tensor // in the converter's order: by shard, then by name
	// RopeFactors is the F32 tensor [RopeFreqs], nil when there is none.
	RopeFactors []float32

	fsys     fs.FS
	snapshot *safetensors.Snapshot
}

var storage = map[safetensors.DType]gguf.Type{safetensors.BF16: gguf.BF16, safetensors.F16: gguf.F16, safetensors.F32: gguf.F32}

// Open reads the headers and the config of a snapshot and maps every tensor. It
// refuses a tensor that no mapping knows, a missing one, and a shape that the
// config does not give. The weights themselves are not read. Close it after use.
func Open(fsys fs.FS) (*Model, error) {
	config, err := ReadConfig(fsys)
	if err != nil {
		return nil, err
	}
	snapshot, err := safetensors.OpenSnapshot(fsys)
	if err != nil {
		return nil, err
	}
	m := &Model{Config: config, RopeFactors: config.ropeFactors(), fsys: fsys, snapshot: snapshot}
	if err := m.mapTensors(); err != nil {
		return nil, errors.Join(err, snapshot.Close())
	}
	return m, nil
}

// Close closes the shards.
func (m *Model) Close() error { return m.snapshot.Close() }

func (m *Model) mapTensors() error {
	all := append([]safetensors.SnapshotTensor(nil), m.snapshot.Tensors()...)
	sort.Slice(all, func(i, j int) bool {
		a, b := m.snapshot.Shards[all[i].Shard].Name, m.snapshot.Shards[all[j].Shard].Name
		return a < b || a == b && all[i].Name < all[j].Name
	})
	for _, t := range all {
		mapping, name, ok := FindHF(t.Name)
		if !ok {
			return fmt.Errorf("tensor %s: got a name that no LlamaForCausalLM has; want every tensor mapped", t.Name)
		}
		if mapping.Transform == Drop {
			continue
		}
		tensor, err := m.tensor(t, mapping, name)
		if err != nil {
			return err
		}
		m.Tensors = append(m.Tensors, tensor)
	}
	return m.checkComplete()
}

func (m *Model) tensor(t safetensors.SnapshotTensor, mapping Mapping, name string) (Tensor, error) {
	stored, ok := storage[t.DType]
	if !ok {
		return Tensor{}, fmt.Errorf("tensor %s: dtype: got %s, want BF16, F16 or F32", t.Name, t.DType)
	}
	codec, err := quant.For(stored)
	if err != nil {
		return Tensor{}, err
	}
	want := make([]uint64, len(mapping.Shape))
	for i, d := range mapping.Shape {
		want[i] = uint64(m.Config.dim(d))
	}
	if fmt.Sprint(t.Shape) != fmt.Sprint(want) {
		return Tensor{}, fmt.Errorf("tensor %s: shape: got %v, want %v by config.json", t.Name, t.Shape, want)
	}
	rows := Rows{R: m.snapshot.Section(t), Codec: codec, Count: 1, Width: m.Config.dim(mapping.Shape[len(mapping.Shape)-1])}
	if len(mapping.Shape) == 2 {
		rows.Count = m.Config.dim(mapping.Shape[0])
	}
	if heads := m.Config.HeadsOf(mapping.Transform); heads > 0 {
		if len(mapping.Shape) == 1 {
			rows.Count, rows.Width = rows.Width, 1
		}
		rows.Order = HeadOrder(rows.Count, heads)
	}
	out := Tensor{Name: name, Source: t.Name, Type: gguf.BF16, Transform: mapping.Transform, Rows: rows}
	if len(want) == 1 || strings.HasSuffix(name, "_norm.weight") {
		out.Type = gguf.F32
	}
	for i := len(want) - 1; i >= 0; i-- {
		out.Dims = append(out.Dims, want[i])
	}
	return out, nil
}

// HeadsOf gives the number of heads by which a transform orders rows, 0 for none.
func (c *Config) HeadsOf(t Transform) int64 {
	switch t {
	case PermuteQ:
		return c.Heads
	case PermuteK:
		return c.kvHeads()
	}
	return 0
}

// checkComplete refuses a layer beyond the config's, and a required tensor that is missing.
func (m *Model) checkComplete() error {
	has := map[string]bool{}
	for _, t := range m.Tensors {
		has[t.Source] = true
	}
	var missing []string
	for _, mapping := range Mappings {
		layers := int64(1)
		if strings.Contains(mapping.HF, "{n}") {
			layers = m.Config.Layers
		}
		for n := int64(0); n < layers; n++ {
			name := strings.Replace(mapping.HF, "{n}", fmt.Sprint(n), 1)
			if !has[name] && !mapping.Optional {
				missing = append(missing, name)
			}
			delete(has, name)
			if len(missing) > 10 {
				break
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("snapshot: missing tensors: got none of %s, want every one that %d layers have", strings.Join(missing, ", "), m.Config.Layers)
	}
	for name := range has {
		return fmt.Errorf("tensor %s: got a layer beyond the %d of config.json", name, m.Config.Layers)
	}
	return nil
}

// Parameters counts the weights of the product, RoPE factors included, as the
// converter does for general.size_label.
func (m *Model) Parameters() int64 {
	n := int64(len(m.RopeFactors))
	for _, t := range m.Tensors {
		n += t.Rows.Weights()
	}
	return n
}

// Size is the number of bytes that the snapshot's weights take as stored.
func (m *Model) Size() int64 {
	var n int64
	for _, t := range m.Tensors {
		n += t.Rows.Codec.Size(t.Rows.Weights())
	}
	return n
}

// KVs lists the metadata of the BF16 conversion in the converter's order.
func (m *Model) KVs(opts Options) ([]gguf.KV, error) {
	kvs := []gguf.KV{
		{Key: "general.architecture", Value: gguf.String("llama")},
		{Key: "general.type", Value: gguf.String("model")},
	}
	if opts.Name != "" {
		kvs = append(kvs, gguf.KV{Key: "general.name", Value: gguf.String(opts.Name)})
	}
	kvs = append(kvs, gguf.KV{Key: "general.size_label", Value: gguf.String(sizeLabel(m.Parameters()))})
	kvs = append(kvs, opts.General...)
	kvs = append(kvs, m.Config.hyperParameters(FileBF16)...)
	tokenizer, err := m.Config.tokenizerKVs(m.fsys)
	return append(kvs, tokenizer...), err
}

// Sources lists the tensors of the BF16 conversion in the converter's order.
// Their data is read when it is written; a cancelled context ends that.
func (m *Model) Sources(ctx context.Context) ([]gguf.TensorSource, error) {
	var sources []gguf.TensorSource
	if m.RopeFactors != nil {
		codec, err := quant.Writer(gguf.F32)
		if err != nil {
			return nil, err
		}
		body := make([]byte, codec.Size(int64(len(m.RopeFactors))))
		codec.Quantize(body, m.RopeFactors)
		sources = append(sources, gguf.TensorSource{
			Name: RopeFreqs, Dims: []uint64{uint64(len(m.RopeFactors))}, Type: gguf.F32,
			Data: func(w io.Writer) error { _, err := w.Write(body); return err },
		})
	}
	for _, t := range m.Tensors {
		codec, err := quant.Writer(t.Type)
		if err != nil {
			return nil, err
		}
		sources = append(sources, gguf.TensorSource{Name: t.Name, Dims: t.Dims, Type: t.Type, Data: func(w io.Writer) error {
			if err := t.Rows.copyAs(ctx, w, codec); err != nil {
				return fmt.Errorf("tensor %s: %w", t.Source, err)
			}
			return nil
		}})
	}
	return sources, nil
}

// Write writes the BF16 GGUF of the snapshot.
func (m *Model) Write(ctx context.Context, w io.Writer, opts Options) error {
	kvs, err := m.KVs(opts)
	if err != nil {
		return err
	}
	sources, err := m.Sources(ctx)
	if err != nil {
		return err
	}
	return gguf.Write(w, kvs, sources)
}
