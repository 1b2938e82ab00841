package derive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/recipe"
)

// Whole is the claim about the whole file of a target all of whose tensors are class A.
type Whole struct {
	// Fits tells that the recomputed header is the target's, byte for byte. As its
	// tensors are proven and its padding is zero, so is every byte of the file.
	Fits bool `json:"fits"`
	// Digest is that of the recomputed file, which is the target's own. It is empty
	// where the header differs, and where no digest was asked for.
	Digest godigest.Digest `json:"digest"`
	Size   int64           `json:"size"` // bytes of the recomputed file
	// Given are the keys whose values no source determines, taken from the target as it claims them.
	Given []string `json:"given"`
	// Findings are the keys, or what else of the header, that are not what was recomputed.
	Findings []kernels.Finding `json:"findings"`
}

// header is a header as one tool would write it.
type header struct {
	tool    string
	kvs     []gguf.KV
	tensors []gguf.TensorInfo
	given   []string
}

// whole recomputes the target's file, under every tool that could have written it.
func whole(ctx context.Context, src, dst *side, inv *inventory, rec recipe.Match, o Options) (*Whole, error) {
	if dst.snapshot() || len(dst.file.Parts) > 1 || dst.file.Order.String() != "LittleEndian" || inv.nearly {
		return nil, nil
	}
	list, err := headers(src, dst, rec)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	var best *Whole
	for _, h := range list {
		w, err := h.hold(ctx, dst)
		if err != nil {
			return nil, err
		}
		if w.Fits && !o.NoDigest {
			w.Digest, err = digest.SHA256(ctx, dst.file.Parts[0].R, w.Size)
		}
		if err != nil || w.Fits {
			return w, err
		}
		if best == nil || len(w.Findings) < len(best.Findings) {
			best = w
		}
	}
	return best, nil
}

// headers lists what the converter, llama-quantize or a plain copy would write.
func headers(src, dst *side, rec recipe.Match) ([]header, error) {
	types := map[string]gguf.Type{}
	quantized := false
	for _, t := range dst.tensors {
		types[t.name] = t.typ
		s := src.byName[t.name]
		quantized = quantized || s != nil && s.typ != t.typ && t.typ.Quantized()
	}
	bases, err := bases(src, dst)
	if err != nil {
		return nil, err
	}
	var list []header
	for _, b := range bases {
		if !quantized || src.snapshot() {
			written := b
			written.tensors = withTypes(b.tensors, types)
			list = append(list, written)
		}
		if !quantized {
			continue
		}
		o := convert.HeaderOptions{FileType: fileType(dst, rec), Matrix: convert.MatrixClaimOf(dst.file)}
		q := header{tool: "llama-quantize", given: b.given}
		if o.Matrix != nil {
			q.given = append(q.given[:len(q.given):len(q.given)], matrixFileKey, matrixDatasetKey)
		}
		q.kvs, q.tensors = convert.QuantizedHeader(b.kvs, b.tensors, types, o)
		list = append(list, q)
	}
	return list, nil
}

// fileType is general.file_type of the recipe that fits, else the one that is claimed.
func fileType(dst *side, rec recipe.Match) uint32 {
	if rec.Exact {
		return rec.FileType
	}
	v, _ := kv(dst.kvs, "general.file_type")
	n, _ := v.Uint()
	return uint32(n)
}

// withTypes gives tensors their types in the target.
func withTypes(list []gguf.TensorInfo, types map[string]gguf.Type) []gguf.TensorInfo {
	out := make([]gguf.TensorInfo, len(list))
	for i, t := range list {
		out[i] = gguf.TensorInfo{Name: t.Name, Dims: t.Dims, Type: types[t.Name]}
	}
	return out
}

// bases lists the unquantized headers to start from: the source's own, or those that the converter may give a snapshot.
func bases(src, dst *side) ([]header, error) {
	if src.file != nil {
		return []header{{tool: "a copy", kvs: src.file.KVs, tensors: src.file.Tensors}}, nil
	}
	if src.model == nil {
		return nil, nil
	}
	infos, err := converted(src)
	if err != nil {
		return nil, err
	}
	o, given := claimed(dst)
	var list []header
	for _, as := range []convert.Outtype{convert.OutBF16, convert.OutF16, convert.OutF32} {
		for _, stated := range []bool{false, true} {
			o.As, o.AsStated = as, stated
			kvs, err := src.model.KVs(o)
			if err != nil {
				return nil, nil // a tokenizer that is not derived
			}
			if v, has := kv(dst.kvs, "general.file_type"); has && as == convert.OutBF16 { // the converter's own --outtype q8_0
				if n, ok := v.Uint(); ok && n == convert.FileQ8_0 {
					q8 := make([]gguf.KV, len(kvs))
					copy(q8, kvs)
					setKV(q8, "general.file_type", gguf.Uint32(convert.FileQ8_0))
					list = append(list, header{"the converter", q8, infos, given})
				}
			}
			list = append(list, header{"the converter", kvs, infos, given})
		}
	}
	return list, nil
}

func setKV(kvs []gguf.KV, key string, v gguf.Value) {
	for i := range kvs {
		if kvs[i].Key == key {
			kvs[i].Value = v
		}
	}
}

// converted lists the tensors of a snapshot's conversion in its order.
func converted(src *side) ([]gguf.TensorInfo, error) {
	sources, err := src.model.Sources(context.Background())
	if err != nil {
		return nil, err
	}
	infos := make([]gguf.TensorInfo, len(sources))
	for i, s := range sources {
		infos[i] = gguf.TensorInfo{Name: s.Name, Dims: s.Dims, Type: s.Type}
	}
	return infos, nil
}

// claimed takes from the target the keys that the converter reads off folder names and model cards.
func claimed(dst *side) (o convert.Options, given []string) {
	for _, e := range dst.kvs {
		if !strings.HasPrefix(e.Key, "general.") {
			continue
		}
		switch e.Key {
		case "general.architecture", "general.type", "general.size_label", "general.file_type", "general.quantization_version", "general.alignment":
		case "general.name":
			o.Name, _ = e.Value.Text()
			given = append(given, e.Key)
		default:
			o.General = append(o.General, e)
			given = append(given, e.Key)
		}
	}
	return o, given
}

// errHeader ends the writing of a file that is not the target.
var errHeader = errors.New("the header differs")

// hold writes the header and compares it with the target's byte for byte.
func (h header) hold(ctx context.Context, dst *side) (*Whole, error) {
	w := &Whole{Given: append([]string{}, h.given...), Findings: []kernels.Finding{}}
	sources := make([]gguf.TensorSource, len(h.tensors))
	for i, t := range h.tensors {
		own, has := dst.file.Tensor(t.Name)
		if !has {
			w.find("tensor "+t.Name, "no such tensor", "one in the header")
			return w, nil
		}
		sources[i] = dst.file.Source(own)
		sources[i].Dims, sources[i].Type = t.Dims, t.Type
	}
	against := &comparing{ctx: ctx, r: dst.file.Parts[0].R, size: dst.file.Parts[0].Size}
	size, err := gguf.WriteHeader(against, h.kvs, sources)
	switch {
	case errors.Is(err, errHeader):
		h.explain(w, dst, against.at)
		return w, nil
	case err != nil:
		return nil, fmt.Errorf("recompute the whole file: %w", err)
	case size != against.size:
		w.find("file", fmt.Sprintf("%d bytes", against.size), fmt.Sprintf("%d bytes", size))
		return w, nil
	}
	w.Fits, w.Size = true, size
	return w, nil
}

func (w *Whole) find(where, got, want string) {
	w.Findings = append(w.Findings, kernels.Finding{Check: "header", Where: where, Got: got, Want: want})
}

// explain names the keys that differ, else what else can.
func (h header) explain(w *Whole, dst *side, at int64) {
	want := map[string]gguf.Value{}
	for _, e := range h.kvs {
		want[e.Key] = e.Value
		if _, has := kv(dst.kvs, e.Key); !has {
			w.find("key "+e.Key, "no such key", short(e.Value))
		}
	}
	for _, e := range dst.kvs {
		if v, has := want[e.Key]; !has {
			w.find("key "+e.Key, short(e.Value), "no such key")
		} else if !v.Equal(e.Value) {
			got, wanted := valueDifference(e.Value, v)
			w.find("key "+e.Key, got, wanted)
		}
	}
	if len(w.Findings) == 0 {
		w.find(fmt.Sprintf("byte %d", at), "the same keys in another order, or tensors in another order or place", "the order of "+h.tool)
	}
}

// comparing compares what is written with what stands in a file.
type comparing struct {
	ctx  context.Context
	r    io.ReaderAt
	size int64
	at   int64
	buf  []byte
}

func (c *comparing) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	if int64(len(p)) > c.size-c.at {
		return 0, errHeader
	}
	c.buf = grow(c.buf, int64(len(p)))
	if n, err := c.r.ReadAt(c.buf, c.at); n < len(p) {
		return 0, fmt.Errorf("product: read at byte %d: %w", c.at, err)
	}
	if !bytes.Equal(c.buf, p) {
		return 0, errHeader
	}
	c.at += int64(len(p))
	return len(p), nil
}
