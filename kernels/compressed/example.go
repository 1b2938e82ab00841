package compressed

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/folder"
	"github.com/weighmaster/weighmaster/kernels/lowfloat"
	"github.com/weighmaster/weighmaster/kernels/memfs"
	"github.com/weighmaster/weighmaster/kernels/number"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

const exampleMatrix = "model.layers.0.mlp.up_proj"

// example is a source of one matrix of 4 rows and one norm, and its nvfp4
// folder with ModelOpt's names.
func example() (source, product memfs.FS) {
	const rows, columns = 4, 64
	w := make([]float32, rows*columns)
	state, top := uint32(1), float32(0)
	for i := range w {
		state = state*1664525 + 1013904223                                                   // a linear congruential sequence: fixed, of no quality
		w[i] = number.BF16.Round(float32(int32(state)) / (1 << 31) / float32(1+i/columns*3)) // rows of falling magnitude
		top = max(top, w[i], -w[i])
	}
	var raw, codes, scales []byte
	for _, x := range w {
		raw = number.BF16.Append(raw, x)
	}
	global := top / 2688
	for i := 0; i < len(w); i += 16 {
		most := float32(0)
		for _, x := range w[i : i+16] {
			most = max(most, x, -x)
		}
		scale := lowfloat.FromE4M3(most / 6 / global)
		scales = append(scales, scale)
		s := float32(lowfloat.E4M3(scale) * global)
		for k := i; k < i+16; k += 2 {
			codes = append(codes, lowfloat.FromE2M1(w[k]/s)|lowfloat.FromE2M1(w[k+1]/s)<<4)
		}
	}
	norm := folder.Tensor{DType: safetensors.BF16, Shape: []uint64{columns}, Data: raw[:2*columns]}
	pt := map[string]string{"format": "pt"}
	source = memfs.FS{
		configName: []byte(`{}`),
		safetensors.SingleName: folder.Safetensors(map[string]folder.Tensor{
			exampleMatrix + ".weight": {DType: safetensors.BF16, Shape: []uint64{rows, columns}, Data: raw}, "model.norm.weight": norm}, pt),
	}
	product = memfs.FS{
		configName: []byte(`{"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}`),
		safetensors.SingleName: folder.Safetensors(map[string]folder.Tensor{
			exampleMatrix + ".weight":         {DType: safetensors.U8, Shape: []uint64{rows, columns / 2}, Data: codes},
			exampleMatrix + ".weight_scale":   {DType: safetensors.F8E4M3, Shape: []uint64{rows, columns / 16}, Data: scales},
			exampleMatrix + ".weight_scale_2": {DType: safetensors.F32, Data: number.F32.Append(nil, global)},
			exampleMatrix + ".input_scale":    {DType: safetensors.F32, Data: number.F32.Append(nil, 1)},
			"model.norm.weight":               norm}, pt),
	}
	return source, product
}

// probeCell moves a weight of the source within its code's cell.
func probeCell(ctx context.Context) error {
	source, product := example()
	m, err := Open(product)
	if err != nil {
		return err
	}
	defer m.Close()
	s, err := safetensors.OpenSnapshot(source)
	if err != nil {
		return err
	}
	defer s.Close()
	t, _ := s.Lookup(exampleMatrix + ".weight")
	v := folder.View{FS: source, Patches: map[string][]kernels.Patch{safetensors.SingleName: {}}}
	for i := t.Begin; i < t.End; i += 2 { // the lowest bit of the first weight where that stays in the cell
		b := []byte{source[safetensors.SingleName][i] ^ 1}
		v.Patches[safetensors.SingleName] = []kernels.Patch{{Offset: i, Bytes: b}}
		r, err := Compare(ctx, v, m)
		if err != nil {
			return err
		}
		if r.Verdict == kernels.Passed {
			return nil
		}
	}
	return fmt.Errorf("every change of a lowest bit was refused, want one accepted")
}

// probeScale changes the scale of the activations.
func probeScale(ctx context.Context) error {
	source, product := example()
	m, err := Open(product)
	if err != nil {
		return err
	}
	defer m.Close()
	t := m.Scales[0].Tensor
	v := folder.View{FS: product, Patches: map[string][]kernels.Patch{safetensors.SingleName: {{Offset: t.Begin, Bytes: number.F32.Append(nil, 2)}}}}
	r, found, err := compareFolders(ctx, source, v, nil)
	if err == nil && r.Verdict != kernels.Passed {
		err = fmt.Errorf("got %s, %v, want it passed over", r.Verdict, found)
	}
	return err
}

// probeInteger names formats that are not covered.
func probeInteger(ctx context.Context) error {
	for _, settings := range []any{
		map[string]any{"quant_method": "modelopt", "quant_algo": "MXFP4"},
		map[string]any{"quant_method": "compressed-tensors", "config_groups": map[string]any{"group_0": map[string]any{
			"weights": map[string]any{"num_bits": json.Number("4"), "type": "int", "strategy": "group", "group_size": json.Number("128")}}}},
	} {
		source, product := example()
		product[configName] = folder.JSON(map[string]any{"quantization_config": settings})
		_, found, err := compareFolders(ctx, source, product, nil)
		if err != nil {
			return err
		}
		if len(found) != 1 || found[0].Check != CheckConfig {
			return fmt.Errorf("got %v for %v, want the configuration refused", found, settings)
		}
	}
	return nil
}
