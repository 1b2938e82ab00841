package mlx

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// assemble puts the parts of the quantized matrices together.
func (m *Model) assemble(q quantization) []kernels.Finding {
	var found []kernels.Finding
	part := map[string]bool{} // tensors that belong to a matrix
	matrices := map[string]bool{}
	for _, t := range m.Snapshot.Tensors() {
		base, ok := strings.CutSuffix(t.Name, ".scales")
		if !ok {
			continue
		}
		matrices[base] = true
		one, bad := m.matrix(base, q)
		if bad != nil {
			found = append(found, *bad)
		} else {
			m.Tensors = append(m.Tensors, one)
		}
		for _, suffix := range []string{".weight", ".scales", ".biases", ".global_scale"} {
			part[base+suffix] = true
		}
	}
	for _, t := range m.Snapshot.Tensors() {
		if part[t.Name] {
			continue
		}
		base, suffix, _ := cutLast(t.Name)
		if suffix == "biases" || suffix == "global_scale" || t.DType == safetensors.U32 && suffix == "weight" {
			found = append(found, kernels.Finding{Check: CheckStructure, Where: t.Name, Got: fmt.Sprintf("%s without %s.scales", t.DType, base), Want: "codes with their scales"})
			continue
		}
		m.Tensors = append(m.Tensors, Tensor{Name: t.Name, Shape: t.Shape, Type: t.DType, Packed: t})
	}
	for _, path := range slices.Sorted(maps.Keys(q.layers)) {
		if q.layers[path] != nil && !matrices[path] {
			found = append(found, kernels.Finding{Check: CheckConfig, Where: fmt.Sprintf("quantization: %.200q", path), Got: q.layers[path].String(), Want: "an entry for a matrix that the shards hold quantized"})
		}
	}
	slices.SortFunc(m.Tensors, func(a, b Tensor) int { return strings.Compare(a.Name, b.Name) })
	return found
}

func cutLast(name string) (before, after string, ok bool) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return "", name, false
	}
	return name[:i], name[i+1:], true
}

// matrix finds the parts of one matrix and compares their types and shapes with
// the configuration.
func (m *Model) matrix(base string, q quantization) (Tensor, *kernels.Finding) {
	t := Tensor{Name: base + ".weight"}
	bad := func(check, where, got, want string) (Tensor, *kernels.Finding) {
		return t, &kernels.Finding{Check: check, Where: where, Got: got, Want: want}
	}
	var hasPacked, hasBiases bool
	t.Scales, _ = m.Snapshot.Lookup(base + ".scales")
	t.Packed, hasPacked = m.Snapshot.Lookup(t.Name)
	t.Biases, hasBiases = m.Snapshot.Lookup(base + ".biases")
	if global, ok := m.Snapshot.Lookup(base + ".global_scale"); ok {
		t.Global = &global
	}
	scheme := q.scheme(base)
	switch {
	case !hasPacked:
		return bad(CheckStructure, t.Name, "absent beside "+t.Scales.Name, "the codes")
	case scheme == nil:
		return bad(CheckConfig, "quantization: "+base, "no scheme, for a matrix that has scales", "its bits and group size")
	}
	s := *scheme
	t.Scheme, t.Type = &s, t.Scales.DType
	affine := s.Mode == Affine
	switch {
	case t.Packed.DType != safetensors.U32 || len(t.Packed.Shape) < 2:
		return bad(CheckStructure, t.Name, fmt.Sprintf("%s %v", t.Packed.DType, t.Packed.Shape), "a U32 matrix of packed codes")
	case affine && !floating(t.Scales.DType):
		return bad(CheckStructure, t.Scales.Name, string(t.Scales.DType), "F32, F16 or BF16, mode affine")
	case affine && !hasBiases:
		return bad(CheckStructure, base+".biases", "absent", "biases, which mode affine has")
	case affine && (t.Biases.DType != t.Scales.DType || !slices.Equal(t.Biases.Shape, t.Scales.Shape)):
		return bad(CheckStructure, t.Biases.Name, fmt.Sprintf("%s %v", t.Biases.DType, t.Biases.Shape), fmt.Sprintf("%s %v, as the scales", t.Scales.DType, t.Scales.Shape))
	case !affine && t.Scales.DType != safetensors.U8:
		return bad(CheckStructure, t.Scales.Name, string(t.Scales.DType), "U8, mode "+string(s.Mode))
	case !affine && hasBiases:
		return bad(CheckStructure, t.Biases.Name, "present", "none in mode "+string(s.Mode))
	case t.Global != nil && (s.Mode != NVFP4 || t.Global.DType != safetensors.F32 || !slices.Equal(t.Global.Shape, t.Packed.Shape[:len(t.Packed.Shape)-2])):
		return bad(CheckStructure, t.Global.Name, fmt.Sprintf("%s %v, mode %s", t.Global.DType, t.Global.Shape, s.Mode), "F32, one for each matrix, mode nvfp4")
	}
	last := len(t.Packed.Shape) - 1
	words, groups := t.Packed.Shape[last], uint64(0)
	if len(t.Scales.Shape) == last+1 && slices.Equal(t.Scales.Shape[:last], t.Packed.Shape[:last]) {
		groups = t.Scales.Shape[last]
	}
	over, want := bits.Mul64(groups, uint64(s.groupBytes()/4))
	width, total := bits.Mul64(groups, uint64(s.Group))
	if groups == 0 || over != 0 || width != 0 || words != want {
		return bad(CheckConfig, t.Name, fmt.Sprintf("%v words and scales %v", t.Packed.Shape, t.Scales.Shape), "shapes that "+s.String()+" gives")
	}
	t.Shape = append(slices.Clone(t.Packed.Shape[:last]), total)
	return t, nil
}

func floating(d safetensors.DType) bool {
	return d == safetensors.F32 || d == safetensors.F16 || d == safetensors.BF16
}

// checkIndex compares the index's metadata with the tensors.
func (m *Model) checkIndex() []kernels.Finding {
	if m.Snapshot.Index == nil {
		return nil
	}
	size, parameters := uint64(0), uint64(0)
	for _, t := range m.Snapshot.Tensors() {
		size += uint64(t.End - t.Begin)
	}
	for _, t := range m.Tensors {
		parameters += t.Elements()
	}
	var found []kernels.Finding
	for _, claim := range []struct {
		key  string
		want uint64
	}{{"total_size", size}, {"total_parameters", parameters}} {
		raw, ok := m.Snapshot.Index.Metadata[claim.key]
		if !ok {
			continue
		}
		var got uint64
		if json.Unmarshal(raw, &got) != nil || got != claim.want {
			found = append(found, kernels.Finding{Check: CheckIndex, Where: safetensors.IndexName + ": " + claim.key, Got: fmt.Sprintf("%.40s", raw), Want: fmt.Sprint(claim.want),
				Hint: "the index was written for other tensors"})
		}
	}
	return found
}
