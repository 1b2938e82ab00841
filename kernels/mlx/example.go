package mlx

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/folder"
	"github.com/weighmaster/weighmaster/kernels/memfs"
	"github.com/weighmaster/weighmaster/kernels/number"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

const exampleMatrix = "model.layers.0.mlp.up_proj.weight"

// exampleWeights are fixed BF16 weights between -1 and 1, of no quality.
func exampleWeights(n int) []float32 {
	w := make([]float32, n)
	state := uint32(1)
	for i := range w {
		state = state*1664525 + 1013904223
		w[i] = number.BF16.Round(float32(int32(state)) / (1 << 31) * float32(1+i/64%3))
	}
	return w
}

// example is a source of one matrix of 8 rows and one norm, and the product that
// MLX's CPU backend makes of it, 4 bits in groups of 64.
func example() (source, product memfs.FS) { return exampleOf(cpu, exampleWeights(8*128)) }

// exampleOf is the example with other weights, or by another backend.
func exampleOf(b backend, w []float32) (source, product memfs.FS) {
	bf16 := number.BF16
	const rows, width = 8, 128
	var raw, norm []byte
	for _, x := range w {
		raw = bf16.Append(raw, x)
	}
	for _, x := range w[:width] {
		norm = bf16.Append(norm, x+2)
	}
	config := map[string]any{"model_type": "llama", "rope_theta": 10000, "tie_word_embeddings": true}
	plain := folder.Tensor{DType: safetensors.BF16, Shape: []uint64{width}, Data: norm}
	source = memfs.FS{
		ConfigName:             folder.JSON(config),
		"tokenizer.json":       []byte(`{"model": {"merges": [["a", "b"]]}}`),
		templateName:           []byte("{{ messages }}"),
		safetensors.SingleName: folder.Safetensors(map[string]folder.Tensor{exampleMatrix: {DType: safetensors.BF16, Shape: []uint64{rows, width}, Data: raw}, "model.norm.weight": plain}, map[string]string{"format": "pt"}),
	}
	s := Scheme{Affine, 4, 64}
	var codes, scales, biases []byte
	g := group{codes: make([]byte, s.Group)}
	for i := 0; i < len(w); i += s.Group {
		b.affine(&g, w[i:i+s.Group], s.Bits, bf16)
		codes = pack(codes, g.codes, s.Bits)
		scales, biases = bf16.Append(scales, g.scale), bf16.Append(biases, g.bias)
	}
	base := exampleMatrix[:len(exampleMatrix)-len(".weight")]
	config["quantization"] = map[string]any{"group_size": 64, "bits": 4, "mode": "affine"}
	config["quantization_config"] = config["quantization"]
	groups := []uint64{rows, width / 64}
	tensors := map[string]folder.Tensor{
		exampleMatrix: {DType: safetensors.U32, Shape: []uint64{rows, width / 8}, Data: codes}, base + ".scales": {DType: safetensors.BF16, Shape: groups, Data: scales},
		base + ".biases": {DType: safetensors.BF16, Shape: groups, Data: biases}, "model.norm.weight": plain,
	}
	files, size := map[string]string{}, 0
	for name, t := range tensors {
		files[name] = safetensors.SingleName
		size += len(t.Data)
	}
	product = maps.Clone(source)
	product[ConfigName] = folder.JSON(config)
	product[safetensors.SingleName] = folder.Safetensors(tensors, map[string]string{"format": "mlx"})
	product[safetensors.IndexName] = folder.JSON(map[string]any{
		"metadata": map[string]any{"total_size": size, "total_parameters": rows*width + width}, "weight_map": files})
	return source, product
}

// altered is the example's product with every scale changed.
func altered(change func(x float32) float32) (source, product memfs.FS, err error) {
	source, product = example()
	m, err := Open(product)
	if err != nil {
		return nil, nil, err
	}
	defer m.Close()
	data := slices.Clone(product[safetensors.SingleName])
	for _, t := range m.Tensors {
		if t.Scheme == nil {
			continue
		}
		for at := t.Scales.Begin; at < t.Scales.End; at += 2 {
			x := math.Float32frombits(uint32(binary.LittleEndian.Uint16(data[at:])) << 16)
			number.BF16.Append(data[at:at], change(x))
		}
	}
	product[safetensors.SingleName] = data
	return source, product, nil
}

func probe(ctx context.Context, source, product memfs.FS, want kernels.Verdict, outcome Outcome) error {
	r, found, err := compareFolders(ctx, source, product, nil)
	if err != nil {
		return err
	}
	if one, _ := r.Tensor(exampleMatrix); r.Verdict != want || one.Outcome != outcome {
		return fmt.Errorf("got %s and %s, want %s and %s: %v", r.Verdict, one.Outcome, want, outcome, found)
	}
	return nil
}

// probeLearned trains the scales by 30 percent, as DWQ may.
func probeLearned(ctx context.Context) error {
	source, product, err := altered(func(x float32) float32 { return x * 1.3 })
	if err != nil {
		return err
	}
	return probe(ctx, source, product, kernels.Failed, Differs)
}

// probeBounded takes the other neighbour for one weight of every group where
// that is still within the bound.
func probeBounded(ctx context.Context) error {
	source, product := example()
	m, err := Open(product)
	if err != nil {
		return err
	}
	defer m.Close()
	i := slices.IndexFunc(m.Tensors, func(t Tensor) bool { return t.Scheme != nil })
	t, bf16 := m.Tensors[i], number.BF16
	r, w := newMatrixReader(m, t, bf16), exampleWeights(int(t.Elements()))
	if err := r.read(int(r.groups)); err != nil {
		return err
	}
	for i := range int(r.groups) {
		g := r.group(i)
		nudge(&g, w[i*t.Scheme.Group:(i+1)*t.Scheme.Group], t.Scheme.Bits, bf16)
	}
	data := slices.Clone(product[safetensors.SingleName])
	copy(data[t.Packed.Begin:t.Packed.End], pack(nil, r.codes, t.Scheme.Bits))
	product[safetensors.SingleName] = data
	return probe(ctx, source, product, kernels.Undecided, Bounded)
}

// nudge moves the first code of a group that can be moved within the bound.
func nudge(g *group, w []float32, bits int, t number.Type) {
	for k, q := range g.codes {
		for _, other := range []byte{q - 1, q + 1} {
			if other >= 1<<bits {
				continue
			}
			g.codes[k] = other
			if ofBound, _ := boundAffine(g, w, bits, t); ofBound <= 1 {
				return
			}
			g.codes[k] = q
		}
	}
}

// probeUnknownType calls the model by a type that nobody knows.
func probeUnknownType(ctx context.Context) error {
	source, product := example()
	for _, f := range []memfs.FS{source, product} {
		config := map[string]any{}
		if err := json.Unmarshal(f[ConfigName], &config); err != nil {
			return err
		}
		config["model_type"] = "unheard-of"
		f[ConfigName] = folder.JSON(config)
	}
	r, found, err := compareFolders(ctx, source, product, nil)
	if err != nil {
		return err
	}
	if len(found) > 0 || len(r.Notes) == 0 {
		return fmt.Errorf("got findings %v and notes %v, want a note alone", found, r.Notes)
	}
	return nil
}
