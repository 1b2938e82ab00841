package convert

import (
	"context"
	"fmt"
	"io"
	"math"
	"sort"
	"strconv"
	"strings"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/quant"
)

var fileTypes = map[gguf.Type]uint32{gguf.Q8_0: FileQ8_0}

// Quantize writes src with every matrix in the given type, in the bytes that
// llama-quantize gives: tensors outside the layers first, then layer by layer,
// each sorted by name; keys copied, with general.quantization_version and
// general.file_type moved to the end. One-dimensional tensors and norms stay as
// they are. Only Q8_0 is covered. A source that is quantized itself is refused:
// the result would carry its errors on.
func Quantize(ctx context.Context, src *gguf.File, typ gguf.Type, w io.Writer) error {
	fileType, ok := fileTypes[typ]
	if !ok {
		return fmt.Errorf("quantize: type: got %s, want Q8_0; other types are not made here", typ)
	}
	to, err := quant.Writer(typ)
	if err != nil {
		return err
	}
	infos := append([]gguf.TensorInfo(nil), src.Tensors...)
	sort.Slice(infos, func(i, j int) bool { return quantizeOrder(infos[i].Name, infos[j].Name) })
	sources := make([]gguf.TensorSource, 0, len(infos))
	for _, t := range infos {
		s, err := quantizedTensor(ctx, src, t, typ, to)
		if err != nil {
			return err
		}
		sources = append(sources, s)
	}
	return gguf.Write(w, quantizedKVs(src.KVs, fileType), sources)
}

func quantizedTensor(ctx context.Context, src *gguf.File, t gguf.TensorInfo, typ gguf.Type, to quant.Codec) (gguf.TensorSource, error) {
	section := src.Section(t)
	if !Quantizes(t.Name, t.Dims) {
		return gguf.TensorSource{Name: t.Name, Dims: t.Dims, Type: t.Type, Data: func(w io.Writer) error {
			_, err := io.Copy(w, contextReader{ctx, io.NewSectionReader(section, 0, section.Size())})
			return err
		}}, nil
	}
	switch t.Type {
	case gguf.F32, gguf.F16, gguf.BF16:
	default:
		return gguf.TensorSource{}, fmt.Errorf("tensor %s: got type %s, want F32, F16 or BF16: quantizing a quantized file again adds its errors; start from the unquantized one", t.Name, t.Type)
	}
	if t.Dims[0]%uint64(to.Weights) != 0 {
		return gguf.TensorSource{}, fmt.Errorf("tensor %s: got rows of %d weights, want a multiple of %d, the block of %s", t.Name, t.Dims[0], to.Weights, typ)
	}
	from, err := quant.For(t.Type)
	if err != nil {
		return gguf.TensorSource{}, err
	}
	rows := Rows{R: section, Codec: from, Count: 1, Width: t.Size / int64(from.Bytes)}
	return gguf.TensorSource{Name: t.Name, Dims: t.Dims, Type: typ, Data: func(w io.Writer) error {
		if err := rows.copyAs(ctx, w, to); err != nil {
			return fmt.Errorf("tensor %s: %w", t.Name, err)
		}
		return nil
	}}, nil
}

// Quantizes tells whether llama-quantize gives a tensor a new type: matrices
// that are weights, apart from norms and the routers of experts.
func Quantizes(name string, dims []uint64) bool {
	return strings.HasSuffix(name, "weight") && !alwaysF32(name, len(dims)) && len(dims) >= 2
}

func quantizeOrder(a, b string) bool {
	if la, lb := layer(a), layer(b); la != lb {
		return la < lb
	}
	return a < b
}

// layer is the number after blk., -1 for tensors outside the layers.
func layer(name string) int64 {
	rest, ok := strings.CutPrefix(name, "blk.")
	digits, _, found := strings.Cut(rest, ".")
	n, err := strconv.ParseInt(digits, 10, 32)
	if !ok || !found || err != nil || n < 0 || n > math.MaxInt32 {
		return -1
	}
	return n
}

func quantizedKVs(kvs []gguf.KV, fileType uint32) []gguf.KV {
	var out []gguf.KV
	for _, kv := range kvs {
		switch kv.Key {
		case "general.quantization_version", "general.file_type":
		default:
			out = append(out, kv)
		}
	}
	return append(out,
		gguf.KV{Key: "general.quantization_version", Value: gguf.Uint32(quantizationVersion)},
		gguf.KV{Key: "general.file_type", Value: gguf.Uint32(fileType)})
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
