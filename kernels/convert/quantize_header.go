package convert

import (
	"sort"
	"strings"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/recipe"
)

const (
	keyFileType       = "general.file_type"
	keyQuantization   = "general.quantization_version"
	keyMatrixFile     = "quantize.imatrix.file"
	keyMatrixDataset  = "quantize.imatrix.dataset"
	keyMatrixEntries  = "quantize.imatrix.entries_count"
	keyMatrixChunks   = "quantize.imatrix.chunks_count"
	maxOverrideString = 127 // bytes of a text that llama-quantize sets
)

// MatrixClaim is what a product states about the importance matrix behind it:
// names and counts, no digest.
type MatrixClaim struct {
	File    string  // path as it was typed
	Dataset *string // the first text, nil for none
	Entries int64
	Chunks  int64 // 0 for unknown, which is not stated
}

// MatrixClaimOf reads the claim off a product's keys, nil where it makes none.
func MatrixClaimOf(product *gguf.File) *MatrixClaim {
	file, ok := product.KV(keyMatrixFile)
	if !ok {
		return nil
	}
	c := &MatrixClaim{}
	c.File, _ = file.Text()
	if v, ok := product.KV(keyMatrixDataset); ok {
		text, _ := v.Text()
		c.Dataset = &text
	}
	for key, to := range map[string]*int64{keyMatrixEntries: &c.Entries, keyMatrixChunks: &c.Chunks} {
		v, _ := product.KV(key)
		*to, _ = v.Int()
	}
	return c
}

// HeaderOptions are what a product's header depends on beside its source and types.
type HeaderOptions struct {
	FileType  uint32
	Overrides []gguf.KV    // --override-kv
	Matrix    *MatrixClaim // nil for none
}

// QuantizedHeader gives the keys and the tensors (name, dimensions and type, no
// offsets) that llama-quantize would write for a source with these keys and
// tensors and the given types, a tensor that is not named keeping its own: keys
// are copied without those of a split, general.quantization_version and
// general.file_type move to the end, then follow overrides and the claim about the matrix,
// texts cut at 127 bytes; tensors outside the layers come first, then layer by
// layer, each sorted by name.
func QuantizedHeader(kvs []gguf.KV, tensors []gguf.TensorInfo, types map[string]gguf.Type, o HeaderOptions) ([]gguf.KV, []gguf.TensorInfo) {
	var out []gguf.KV
	set := func(key string, v gguf.Value) {
		for i, kv := range out {
			if kv.Key == key {
				out = append(out[:i], out[i+1:]...)
				break
			}
		}
		out = append(out, gguf.KV{Key: key, Value: v})
	}
	for _, kv := range kvs {
		switch kv.Key {
		case "split.no", "split.count", "split.tensors.count":
		default:
			out = append(out, gguf.KV{Key: kv.Key, Value: asC(kv.Value)})
		}
	}
	set(keyQuantization, gguf.Uint32(quantizationVersion))
	set(keyFileType, gguf.Uint32(o.FileType))
	for _, kv := range o.Overrides {
		set(kv.Key, cut(kv.Value))
	}
	if m := o.Matrix; m != nil {
		set(keyMatrixFile, cut(gguf.String(m.File)))
		if m.Dataset != nil {
			set(keyMatrixDataset, cut(gguf.String(*m.Dataset)))
		}
		set(keyMatrixEntries, gguf.Uint32(uint32(m.Entries)))
		if m.Chunks > 0 {
			set(keyMatrixChunks, gguf.Uint32(uint32(m.Chunks)))
		}
	}
	infos := make([]gguf.TensorInfo, 0, len(tensors))
	for _, t := range tensors {
		to, named := types[t.Name]
		if !named {
			to = t.Type
		}
		infos = append(infos, gguf.TensorInfo{Name: t.Name, Dims: t.Dims, Type: to})
	}
	sort.SliceStable(infos, func(i, j int) bool { return recipe.Less(infos[i].Name, infos[j].Name) })
	return out, infos
}

// cut ends a text where the tool's buffer does, without regard to characters.
func cut(v gguf.Value) gguf.Value {
	v = asC(v)
	if s, ok := v.Text(); ok && len(s) > maxOverrideString {
		return gguf.String(s[:maxOverrideString])
	}
	return v
}

// asC ends texts at a NUL byte, as the tool's copying of keys does.
func asC(v gguf.Value) gguf.Value {
	if s, ok := v.Text(); ok {
		if head, _, found := strings.Cut(s, "\x00"); found {
			return gguf.String(head)
		}
		return v
	}
	list := v.Strings()
	for i, s := range list {
		if strings.Contains(s, "\x00") {
			list = append([]string(nil), list...)
			for k := i; k < len(list); k++ {
				list[k], _, _ = strings.Cut(list[k], "\x00")
			}
			return gguf.Strings(list)
		}
	}
	return v
}

// Quantizes tells whether llama-quantize gives a tensor a new type, whatever the
// architecture: matrices that are weights, apart from norms and some small ones.
func Quantizes(name string, dims []uint64) bool { return recipe.Allows("", name, dims) }
