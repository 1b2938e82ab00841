package derive

import (
	"io/fs"
	"slices"

	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/quant"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// stored gives the GGUF type of a checkpoint's numbers, where GGUF has one.
var stored = map[safetensors.DType]gguf.Type{
	safetensors.F32: gguf.F32, safetensors.F16: gguf.F16, safetensors.BF16: gguf.BF16, safetensors.F64: gguf.F64,
	safetensors.I8: gguf.I8, safetensors.I16: gguf.I16, safetensors.I32: gguf.I32, safetensors.I64: gguf.I64,
}

// opaque is the first of the types that stand for dtypes that GGUF does not
// have. Their bytes are compared as they stand; no number of the format is so large.
const opaque gguf.Type = 1 << 20

// openRaw opens a snapshot whose architecture has no mapping: tensors under their own names, as they are stored.
func openRaw(fsys fs.FS, architecture string) (*side, error) {
	snapshot, err := safetensors.OpenSnapshot(fsys)
	if err != nil {
		return nil, err
	}
	s := &side{unknown: architecture, byName: map[string]*tensor{}, closers: []func() error{snapshot.Close}}
	for _, t := range snapshot.Tensors() {
		dims := slices.Clone(t.Shape)
		slices.Reverse(dims)
		s.tensors = append(s.tensors, tensor{name: t.Name, origin: t.Name, dims: dims, typ: rawType(t.DType), rows: rawRows(snapshot, t, dims)})
	}
	s.index()
	return s, nil
}

func rawType(d safetensors.DType) gguf.Type {
	if typ, ok := stored[d]; ok {
		return typ
	}
	return opaque + 1 + gguf.Type(slices.Index(opaqueTypes, d))
}

// opaqueTypes lists the dtypes that GGUF does not have.
var opaqueTypes = []safetensors.DType{
	safetensors.BOOL, safetensors.U8, safetensors.U16, safetensors.U32, safetensors.U64, safetensors.C64, safetensors.F4, safetensors.F6E2M3,
	safetensors.F6E3M2, safetensors.F8E5M2, safetensors.F8E4M3, safetensors.F8E8M0, safetensors.F8E4M3FNUZ, safetensors.F8E5M2FNUZ,
}

// rawRows reads a tensor as it is stored; types of fewer than eight bits, byte by byte in one row.
func rawRows(snapshot *safetensors.Snapshot, t safetensors.SnapshotTensor, dims []uint64) convert.Rows {
	section := snapshot.Section(t)
	codec, err := quant.For(rawType(t.DType))
	if err != nil {
		codec = quant.Codec{Type: rawType(t.DType), Weights: 1, Bytes: max(1, t.DType.Bits()/8)}
	}
	rows := rowsOf(dims, codec)
	if t.DType.Bits()%8 != 0 {
		rows = convert.Rows{Codec: codec, Count: 1, Width: section.Size()}
	}
	rows.R = section
	return rows
}

// typeName names a type as its own format does.
func typeName(t gguf.Type) string {
	if t > opaque && int(t-opaque) <= len(opaqueTypes) {
		return string(opaqueTypes[t-opaque-1])
	}
	return t.String()
}
