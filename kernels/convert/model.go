package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/quant"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// Outtype is what a conversion stores matrices as.
type Outtype int

// The converter's unquantized types.
const (
	OutBF16 Outtype = iota
	OutF16
	OutF32
)

func (o Outtype) storage() gguf.Type {
	return [...]gguf.Type{OutBF16: gguf.BF16, OutF16: gguf.F16, OutF32: gguf.F32}[o]
}

func (o Outtype) fileType() uint32 {
	return [...]uint32{OutBF16: FileBF16, OutF16: FileF16, OutF32: FileF32}[o]
}

// Options are the choices that a snapshot does not determine.
type Options struct {
	// Name is general.name. The key is left out when it is empty. (The original
	// converter makes a title from the folder's name.)
	Name string
	// General are further general.… keys, written after general.size_label as they stand.
	General []gguf.KV
	// As is the type that matrices are stored in: the converter's --outtype.
	As Outtype
	// AsStated leaves out the keys of fields that config.json does not have. The
	// converter does so where it cannot load the config through transformers,
	// which gives every field a value.
	AsStated bool
	// PreTokenizer is tokenizer.ggml.pre where the converter's table does not know
	// the vocabulary. The converter has no such choice: it stops.
	PreTokenizer string
}

// Tensor is one tensor of the GGUF that a snapshot gives.
type Tensor struct {
	Name      string    // in GGUF
	Source    string    // in the checkpoint; with * for the number of an expert where all of them are stacked
	Dims      []uint64  // GGUF order, fastest first
	Type      gguf.Type // F32 or BF16: what the conversion to BF16 stores
	Transform Transform
	Rows      Rows
	// Wrong are readings that known mistakes of converters give.
	Wrong []Wrong
}

// Wrong is a tensor as a mistaken conversion reads it.
type Wrong struct {
	Name string // completes "the values fit …"
	Rows Rows
}

// Model is an opened snapshot of one of the [Architectures].
type Model struct {
	Config  Config
	Tensors []Tensor // in the converter's order: by shard, then by name; stacked ones where the last of theirs stands
	// RopeFactors is the F32 tensor [RopeFreqs], nil when there is none.
	RopeFactors []float32

	fsys     fs.FS
	snapshot *safetensors.Snapshot
	named    map[string]safetensors.SnapshotTensor // the language model's, by the names of its table
}

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

// Parameters counts the weights of the product, computed factors included, as the
// converter does for general.size_label: of tensors that stack experts, one expert.
func (m *Model) Parameters() int64 {
	n := int64(len(m.RopeFactors))
	for _, t := range m.Tensors {
		if strings.Contains(t.Name, "_exps.") {
			n += t.Rows.Weights() / m.Config.experts()
			continue
		}
		n += t.Rows.Weights()
	}
	return n
}

// Size is the number of bytes that the snapshot's weights take as they are read.
func (m *Model) Size() int64 {
	var n int64
	for _, t := range m.Tensors {
		n += t.Rows.Codec.Size(t.Rows.Weights())
	}
	return n
}

// KVs lists the metadata of the conversion in the converter's order. An error is
// about the tokenizer or the generation config; the keys before theirs are given with it.
func (m *Model) KVs(opts Options) ([]gguf.KV, error) {
	kvs := []gguf.KV{{Key: "general.architecture", Value: gguf.String(m.Config.architecture.GGUF)}}
	kvs = append(kvs, m.Config.list(m.Config.architecture.Early, opts)...)
	kvs = append(kvs, gguf.KV{Key: "general.type", Value: gguf.String("model")})
	sampling, samplingErr := samplingKVs(m.fsys)
	kvs = append(kvs, sampling...)
	if opts.Name != "" {
		kvs = append(kvs, gguf.KV{Key: "general.name", Value: gguf.String(opts.Name)})
	}
	kvs = append(kvs, gguf.KV{Key: "general.size_label", Value: gguf.String(sizeLabel(m.Parameters(), m.Config.experts()))})
	kvs = append(kvs, opts.General...)
	kvs = append(kvs, m.Config.hyperParameters(opts)...)
	tokenizer, err := m.Config.tokenizerKVs(m.fsys, opts.PreTokenizer)
	return append(kvs, tokenizer...), errors.Join(samplingErr, err)
}

// PublishedKVs lists what the publisher's files state of special tokens, of what is put
// around a text and of chat templates, whatever the vocabulary is. An error is as that of [Model.KVs].
func (m *Model) PublishedKVs() ([]gguf.KV, error) {
	if _, err := samplingKVs(m.fsys); err != nil {
		return nil, err
	}
	files, err := readTokenizerFiles(m.fsys)
	if err != nil {
		return nil, err
	}
	s := vocabularySource{tokenizerFiles: files, config: &m.Config}
	return s.specialKVs(-1)
}

// Sources lists the tensors of the BF16 conversion in the converter's order.
// Their data is read when it is written; a cancelled context ends that.
func (m *Model) Sources(ctx context.Context) ([]gguf.TensorSource, error) {
	return m.sources(ctx, OutBF16)
}

func (m *Model) sources(ctx context.Context, as Outtype) ([]gguf.TensorSource, error) {
	var sources []gguf.TensorSource
	if m.RopeFactors != nil {
		body, err := floatBytes(m.RopeFactors)
		if err != nil {
			return nil, err
		}
		sources = append(sources, gguf.TensorSource{
			Name: RopeFreqs, Dims: []uint64{uint64(len(m.RopeFactors))}, Type: gguf.F32,
			Data: func(w io.Writer) error { _, err := w.Write(body); return err },
		})
	}
	for _, t := range m.Tensors {
		typ := t.Type
		if typ != gguf.F32 {
			typ = as.storage()
		}
		codec, err := quant.Writer(typ)
		if err != nil {
			return nil, err
		}
		sources = append(sources, gguf.TensorSource{Name: t.Name, Dims: t.Dims, Type: typ, Data: func(w io.Writer) error {
			if err := t.Rows.copyAs(ctx, w, codec); err != nil {
				return fmt.Errorf("tensor %s: %w", t.Source, err)
			}
			return nil
		}})
	}
	return sources, nil
}

// Write writes the GGUF of the snapshot.
func (m *Model) Write(ctx context.Context, w io.Writer, opts Options) error {
	kvs, err := m.KVs(opts)
	if err != nil {
		return err
	}
	sources, err := m.sources(ctx, opts.As)
	if err != nil {
		return err
	}
	return gguf.Write(w, kvs, sources)
}

func floatBytes(numbers []float32) ([]byte, error) {
	codec, err := quant.Writer(gguf.F32)
	if err != nil {
		return nil, err
	}
	body := make([]byte, codec.Size(int64(len(numbers))))
	codec.Quantize(body, numbers)
	return body, nil
}
