package compressed

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/number"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// suffixes of the scales beside the matrices, and whether they divide.
var besides = []struct {
	suffix, key string
	kind        Kind
	reciprocal  bool
}{
	{".input_scale", ".input", Activation, false},
	{".input_global_scale", ".input", Activation, true},
	{".k_proj.k_scale", ".k", KVCache, false},
	{".v_proj.v_scale", ".v", KVCache, false},
	{".k_scale", ".k", KVCache, false},
	{".v_scale", ".v", KVCache, false},
	{".k_zero_point", ".k zero point", KVCache, false},
	{".v_zero_point", ".v zero point", KVCache, false},
	{".q_scale", ".q", KVCache, false},
	{".prob_output_scale", ".probabilities", KVCache, false},
}

// assemble puts the parts of the quantized matrices together.
func (m *Model) assemble(q quantization) []kernels.Finding {
	var found []kernels.Finding
	part := map[string]bool{}
	for _, t := range m.Snapshot.Tensors() {
		base, ok := strings.CutSuffix(t.Name, ".weight_scale")
		if !ok {
			base, ok = strings.CutSuffix(t.Name, ".weight_scale_inv")
		}
		if !ok {
			continue
		}
		one, bad := m.matrix(base, t, q)
		if bad != nil {
			found = append(found, *bad)
		} else {
			m.Matrices = append(m.Matrices, one)
		}
		for _, suffix := range []string{".weight", ".weight_packed", ".weight_scale", ".weight_scale_inv", ".weight_scale_2", ".weight_global_scale"} {
			part[base+suffix] = true
		}
	}
	seen := map[string]string{}
	for _, t := range m.Snapshot.Tensors() {
		if part[t.Name] {
			continue
		}
		if s, ok := beside(t); ok {
			if _, known := number.Of(t.DType); !known {
				found = append(found, kernels.Finding{Check: CheckStructure, Where: t.Name, Got: string(t.DType), Want: "F32, F16 or BF16"})
			}
			if other, twice := seen[s.Key]; twice {
				found = append(found, kernels.Finding{Check: CheckStructure, Where: t.Name, Got: "the same scale as " + other, Want: "one of them"})
			}
			seen[s.Key] = t.Name
			m.Scales = append(m.Scales, s)
			continue
		}
		if t.DType == safetensors.F8E4M3 || strings.HasSuffix(t.Name, ".weight_packed") || strings.HasSuffix(t.Name, ".weight_global_scale") || strings.HasSuffix(t.Name, ".weight_scale_2") {
			found = append(found, kernels.Finding{Check: CheckStructure, Where: t.Name, Got: fmt.Sprintf("%s %v without a weight_scale", t.DType, t.Shape), Want: "codes with their scales"})
			continue
		}
		m.Plain = append(m.Plain, t)
	}
	return found
}

func beside(t safetensors.SnapshotTensor) (Scale, bool) {
	for _, b := range besides {
		if base, ok := strings.CutSuffix(t.Name, b.suffix); ok {
			return Scale{Key: base + b.key, Kind: b.kind, Tensor: t, Reciprocal: b.reciprocal}, true
		}
	}
	return Scale{}, false
}

// matrix finds the parts of one matrix and compares their types and shapes.
func (m *Model) matrix(base string, scale safetensors.SnapshotTensor, q quantization) (Matrix, *kernels.Finding) {
	one := Matrix{Name: base, Scale: scale, BlockRows: q.blockRows, BlockColumns: q.blockColumns}
	bad := func(where, got, want string) (Matrix, *kernels.Finding) {
		return one, &kernels.Finding{Check: CheckStructure, Where: where, Got: got, Want: want}
	}
	plain, hasPlain := m.Snapshot.Lookup(base + ".weight")
	packed, hasPacked := m.Snapshot.Lookup(base + ".weight_packed")
	if hasPlain == hasPacked {
		return bad(base, fmt.Sprintf("weight: %v, weight_packed: %v", hasPlain, hasPacked), "one of them beside "+scale.Name)
	}
	one.Codes = plain
	if hasPacked {
		one.Codes = packed
	}
	if len(one.Codes.Shape) != 2 {
		return bad(one.Codes.Name, fmt.Sprintf("shape %v", one.Codes.Shape), "rows and columns")
	}
	one.Rows, one.Columns = one.Codes.Shape[0], one.Codes.Shape[1]
	switch one.Codes.DType {
	case safetensors.F8E4M3:
		one.Format = FP8
	case safetensors.U8:
		one.Format = NVFP4
	default:
		return bad(one.Codes.Name, string(one.Codes.DType)+" beside "+scale.Name, "F8_E4M3, or U8 for nvfp4")
	}
	if !q.formats[one.Format] {
		return one, &kernels.Finding{Check: CheckConfig, Where: one.Codes.Name, Got: string(one.Format), Want: "a format that the configuration names"}
	}
	if one.Format == NVFP4 {
		return m.fp4(one, bad)
	}
	if _, ok := number.Of(scale.DType); !ok {
		return bad(scale.Name, string(scale.DType), "F32, F16 or BF16")
	}
	shape := slices.DeleteFunc(slices.Clone(scale.Shape), func(d uint64) bool { return d == 1 })
	blocks := slices.DeleteFunc([]uint64{ceil(one.Rows, one.BlockRows), ceil(one.Columns, one.BlockColumns)}, func(d uint64) bool { return d == 1 })
	switch {
	case len(shape) == 0:
		one.Layout = PerTensor
	case len(scale.Shape) <= 2 && scale.Shape[0] == one.Rows && scale.Elements() == one.Rows:
		one.Layout = PerChannel
	case slices.Equal(shape, blocks):
		one.Layout = PerBlock
	default:
		return bad(scale.Name, fmt.Sprintf("shape %v for %v weights", scale.Shape, one.Codes.Shape), fmt.Sprintf("one, one a row, or one a block of %d by %d", one.BlockRows, one.BlockColumns))
	}
	return one, nil
}

func ceil(n, by uint64) uint64 { return n/by + min(n%by, 1) }

func (m *Model) fp4(one Matrix, bad func(where, got, want string) (Matrix, *kernels.Finding)) (Matrix, *kernels.Finding) {
	one.Layout = PerGroup
	multiplies, first := m.Snapshot.Lookup(one.Name + ".weight_scale_2")
	divides, second := m.Snapshot.Lookup(one.Name + ".weight_global_scale")
	if first == second {
		return bad(one.Name, fmt.Sprintf("weight_scale_2: %v, weight_global_scale: %v", first, second), "one of them")
	}
	global := multiplies
	if second {
		global, one.Reciprocal = divides, true
	}
	one.Global = &global
	if global.DType != safetensors.F32 || global.Elements() != 1 {
		return bad(global.Name, fmt.Sprintf("%s %v", global.DType, global.Shape), "one F32")
	}
	if one.Scale.DType != safetensors.F8E4M3 || one.Columns == 0 || one.Columns%8 != 0 || !slices.Equal(one.Scale.Shape, []uint64{one.Rows, one.Columns / 8}) {
		return bad(one.Scale.Name, fmt.Sprintf("%s %v for packed %v", one.Scale.DType, one.Scale.Shape, one.Codes.Shape), "F8_E4M3, one for each 16 columns, two of which are a byte")
	}
	one.Columns *= 2
	return one, nil
}
